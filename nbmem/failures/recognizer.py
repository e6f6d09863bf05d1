"""Whether an error says that memory ran out, and its figures.

error ──> itself, then the errors behind it ──> its type, its text ──> OutOfMemory
          (chain)                               (kinds)  (families)
"""

from __future__ import annotations

import re
from math import prod
from typing import Any

from nbmem.failures.chain import arguments_text, errno_of, errors_behind
from nbmem.failures.doubts import is_lie, not_trusted, without_lies
from nbmem.failures.families import ARRAY, FAMILIES, PROCESS, TENSORFLOW_DEVICE, Family, on_one_line
from nbmem.failures.kinds import Trust, names_of, source_by_type, trust_in
from nbmem.failures.sizes import bytes_of, bytes_of_array
from nbmem.records import Note, OutOfMemory, ProcessMemory

_KEPT = 1_500
_MOST_PROCESSES = 32
_TYPES = {"HIP": "cuda", "ROCM": "cuda"}
_FIELDS = (
    "asked",
    "free",
    "capacity",
    "allowed",
    "allocated",
    "reserved",
    "private_pools",
    "other",
    "this_process",
)
_TYPE_NAME = re.compile(r"(?:[\w.]{1,80}(?:Error|Exception): ){0,4}")


def find_out_of_memory(
    kind: type[BaseException], error: BaseException | None, text: str
) -> OutOfMemory | None:
    """Returns what an error says of memory that ran out; None where it is another error.

    Args:
        kind: the type of the error.
        error: itself; None where only the type is known. Nothing of it is kept.
        text: what `str(error)` said.
    """
    found = _read_error(kind, text, None if error is None else errno_of(error))
    if error is None or (found is not None and found.asked is not None):
        return found
    for other in errors_behind(error):
        inner = _read_error(type(other), arguments_text(other), errno_of(other), _array_of(other))
        if inner is not None and (found is None or inner.asked is not None):
            found = inner
        if found is not None and found.asked is not None:
            break
    return found


def read_message(text: str, trust: Trust = "any") -> OutOfMemory | None:
    """Returns what the text of an error says of memory that ran out; None for other texts."""
    told = on_one_line(text)
    for family in FAMILIES:
        sign = family.sign.search(told)
        if sign is not None and _counts(family, sign, told, trust):
            return _read(family, sign, told)
    return None


def _read_error(
    kind: type[BaseException], text: str, number: int | None, asked: int | None = None
) -> OutOfMemory | None:
    names, told = names_of(kind), on_one_line(text)
    found = read_message(told, trust_in(names))
    source = source_by_type(names, told, number) if found is None else None
    if source is None:
        return found
    device = "cpu" if source in ("python", "system") else None
    return OutOfMemory(source, device, asked=asked, text=told[:_KEPT])


def _array_of(error: BaseException) -> int | None:
    """Returns the bytes of the array that numpy could not make: its error keeps shape and type."""
    shape, dtype = (*BaseException.args.__get__(error), None, None)[:2]  # type: ignore[attr-defined]
    if not issubclass(type(error), MemoryError) or type(shape) is not tuple:
        return None
    size: Any = getattr(dtype, "itemsize", None) if _is_numpys(dtype) else None
    return prod(shape) * size if type(size) is int else None


def _is_numpys(dtype: Any) -> bool:
    return any(f"{cls.__module__}.{cls.__name__}" == "numpy.dtype" for cls in type(dtype).__mro__)


def _counts(family: Family, sign: re.Match[str], text: str, trust: Trust) -> bool:
    if trust == "any":
        return True
    if trust == "never" or not family.distinct:
        return False
    return trust == "distinct" or _TYPE_NAME.fullmatch(text[: sign.start()]) is not None


def _read(family: Family, sign: re.Match[str], text: str) -> OutOfMemory:
    told = text[sign.start() :]
    figures = _figures(family, told)
    figures, notes = without_lies(figures)
    processes, more = _processes(told)
    return OutOfMemory(
        source=family.source,
        device=_device(family, sign, told),
        processes=processes,
        notes=(*notes, *more),
        text=told[:_KEPT],
        **{field: figures.get(field) for field in _FIELDS},
    )


def _figures(family: Family, text: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for field, pattern in family.figures:
        match = None if field in found else re.search(pattern, text)
        if match is not None:
            number, unit = (group for group in match.groups() if group is not None)
            found[field] = bytes_of(number, unit or "bytes")
    found |= _array(text)
    cached, allocated = found.pop("cached", None), found.get("allocated")
    if cached is not None and allocated is not None:
        found["reserved"] = allocated + cached
    return found


def _array(text: str) -> dict[str, int]:
    """Returns the size asked for where the text has the shape and type of what was to be made."""
    for pattern in ARRAY:
        match = pattern.search(text)
        size = None if match is None else bytes_of_array(*match.groups())
        if size is not None:
            return {"asked": size}
    return {}


def _processes(text: str) -> tuple[tuple[ProcessMemory, ...], list[Note]]:
    processes, notes = [], []
    for pid, number, unit in PROCESS.findall(text)[:_MOST_PROCESSES]:
        size = bytes_of(number, unit)
        if is_lie(size):
            notes.append(not_trusted("processes", size))
        processes.append(ProcessMemory(int(pid), None, None if is_lie(size) else size))
    return tuple(processes), notes[:1]


def _device(family: Family, sign: re.Match[str], text: str) -> str | None:
    found = TENSORFLOW_DEVICE.search(text) if family.source == "tensorflow" else None
    if found is not None:
        return "cpu" if found[1] == "CPU" else f"cuda:{found[2]}"
    backend = (sign.groupdict().get("backend") or "").upper()
    type_ = _TYPES.get(backend, backend.lower()) or family.device
    index = None if family.index is None else family.index.search(text)
    if type_ == "mps":
        return "mps:0"
    if index is None:
        return type_
    return f"{type_ or 'cuda'}:{index[1]}"
