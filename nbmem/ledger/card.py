"""The third sum of an accelerator: the whole card, by process."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from nbmem.devices.namespaces import in_container
from nbmem.devices.protocols import reading_failed
from nbmem.records import LedgerLine, LedgerSum, Note

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbmem.devices.accelerators import AcceleratorReader
    from nbmem.devices.nvml import CardMemory
    from nbmem.records import ProcessMemory


@dataclass(frozen=True, slots=True)
class CardUse:
    """What the driver says of the card, and of whom it speaks."""

    card: CardMemory
    processes: tuple[ProcessMemory, ...]
    own: int | None
    """Bytes of this process: 0 where it has no context there, None where they are not told."""
    others: int | None
    """Bytes of all other processes; None where one is not told, or this one is among them."""
    notes: tuple[Note, ...]


def read_card(reader: AcceleratorReader, reserved: int | None) -> CardUse:
    """Returns what the driver says of the reader's card.

    Args:
        reader: of the device.
        reserved: bytes that this process's allocator has there: its own use is no less.

    Raises:
        CounterUnavailableError: the driver can't be asked; the message says why.
    """
    card = reader.card()
    notes: list[Note] = []
    try:
        processes = reader.card_processes()
    except Exception as error:  # the card's own figures are there without its processes
        notes.append(reading_failed(reader.device, "processes", error))
        return CardUse(card, (), None, None, tuple(notes))
    own = _own_bytes(reader, processes, reserved or 0, notes)
    rest = [process.bytes for process in processes if not process.own]
    known = [size for size in rest if size is not None]
    if len(known) < len(rest):
        notes.append(_UNTOLD)
    told = own is not None and len(known) == len(rest)
    return CardUse(card, processes, own, sum(known) if told else None, tuple(notes))


def _own_bytes(
    reader: AcceleratorReader, processes: Sequence[ProcessMemory], reserved: int, notes: list[Note]
) -> int | None:
    own = next((process for process in processes if process.own), None)
    if own is None:
        if not reader.has_context():
            return 0
        notes.append(_NOT_LISTED)
        return None
    if own.bytes is None or (own.bytes == 0 and reserved):
        notes.append(_OWN_UNTOLD)
        return None
    if own.bytes < reserved:
        notes.append(_TOO_LITTLE)
        return None
    return own.bytes


def total_sum(use: CardUse, reserved: LedgerLine, limit: int | None = None) -> LedgerSum:
    """Returns this process + others + the driver + free = the card's total.

    Args:
        use: what the driver says.
        reserved: the total of the sum above.
        limit: the most that torch may reserve; None where there is no limit.
    """
    card = use.card
    lines = [reserved, *_users(use, reserved.bytes)]
    if card.reserved is not None:
        equals = _query("reserved", card)
        lines.append(LedgerLine("driver", "kept by the driver", card.reserved, equals=equals))
    lines.append(LedgerLine("free", "free", card.free, equals=_query("free", card)))
    if limit is not None and reserved.bytes is not None:
        beyond = min(card.free, max(0, reserved.bytes + card.free - limit))
        lines.append(LedgerLine("limit", _BEYOND, beyond, equals=_LIMIT, part_of="free"))
    what = "the MIG instance's total" if card.instance else "the card's total"
    what = "main memory, which the device shares" if card.unified else what
    total = LedgerLine("total", what, card.total, equals=_query("total", card))
    return LedgerSum("total", _derive(lines, card), total, _card_notes(use))


def _card_notes(use: CardUse) -> tuple[Note, ...]:
    of_nvidia = not use.card.query
    return (*use.notes, _OLD_DRIVER) if of_nvidia and use.card.reserved is None else use.notes


def notes_on_containers(use: CardUse) -> tuple[Note, ...]:
    """Returns the note that processes outside of this container may be on the card, too."""
    listed = any(process.own for process in use.processes)
    return (_OTHERS_HIDDEN,) if listed and in_container() else ()


def _users(use: CardUse, reserved: int | None) -> list[LedgerLine]:
    """Returns who else uses the card; None stands where it is left to be derived."""
    if use.own is None or reserved is None:
        label = _OTHER_USE_HERE if use.card.query else _OTHER_USE
        return [LedgerLine("other use", label, None, derived=True)]
    context = LedgerLine(
        "context", _CONTEXT, use.own - reserved, equals=f"{_TABLE} of this process − reserved"
    )
    others = LedgerLine(
        "other processes",
        "other processes",
        use.others,
        sum(not process.own for process in use.processes),
        derived=use.others is None,
        equals=f"{_TABLE} of the other processes",
    )
    return [context, others]


def _derive(lines: Sequence[LedgerLine], card: CardMemory) -> tuple[LedgerLine, ...]:
    """Returns the lines with what they leave of the total in the one that is derived.

    Where none is so far, one joins: the driver's figures by process never add up to what is used.
    """
    own = [line for line in lines if line.part_of is None]
    known = [line.bytes for line in own if not line.derived]
    if None in known:
        return tuple(lines)
    left = card.total - sum(size for size in known if size is not None)
    if left and len(known) == len(own):
        equals = f"{_query('used', card)} − the processes"
        label = _ALL_ELSE if card.unified else _UNLISTED
        return (*lines, LedgerLine("unlisted", label, left, derived=True, equals=equals))
    return tuple(replace(line, bytes=left) if line.derived else line for line in lines)


def _query(field: str, card: CardMemory) -> str:
    """Returns the figure of nvidia-smi's that a line equals: it queries whole cards only."""
    if card.available and field == "free":
        return "psutil.virtual_memory().available"
    if card.query:
        return f"{card.query}: {field}"
    if card.instance:
        return f"nvidia-smi: Memory-Usage of {card.selector}, under MIG devices"
    which = f"-i {card.selector} " if card.selector else ""
    return f"nvidia-smi {which}--query-gpu=memory.{field}"


_TABLE = "nvidia-smi: GPU Memory"
_BEYOND = "of it beyond torch's limit"
_LIMIT = "reserved + free − torch's limit (get_per_process_memory_fraction)"
_ALL_ELSE = "main memory that anything else uses"
_OTHERS_HIDDEN = Note(
    "other processes",
    "container",
    "In this container the driver lists the container's own processes only: what others use is in "
    "the line of no listed process; start the container with --pid=host to see them.",
)
_UNLISTED = "in use by no process that is listed"
_CONTEXT = "this process's CUDA context and other libraries"
_OTHER_USE_HERE = "this process's context and other libraries, and other processes"
_OTHER_USE = "this process's CUDA context and other libraries, and other processes"
_NOT_LISTED = Note(
    "context",
    "not_listed",
    "The driver does not list this process (inside a container its numbers are not the "
    "driver's), so its context can't be told from other processes.",
)
_OWN_UNTOLD = Note(
    "context",
    "not_told",
    "The driver does not tell what this process uses (as under WSL and in some containers), so "
    "its context can't be told from other processes.",
)
_TOO_LITTLE = Note(
    "context",
    "not_this_process",
    "The driver lists less for this process's number than torch has reserved: that number is "
    "another process's outside the container.",
)
_OLD_DRIVER = Note(
    "driver",
    "not_told",
    "This driver counts what it keeps for itself as used: it has no line of its own.",
)
_UNTOLD = Note(
    "other processes",
    "not_told",
    "The driver does not tell what each of the other processes uses.",
)
