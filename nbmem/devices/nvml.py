"""What the NVIDIA driver says of a whole card, through the optional package `nvidia-ml-py`.

torch numbers the devices that this process may use; the driver numbers all cards. The two numbers
are never mixed here: a card is found by its UUID, or by its place in CUDA_VISIBLE_DEVICES while
CUDA has not started and torch knows no UUID yet.
"""

from __future__ import annotations

import contextlib
import os
import platform
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nbmem.devices.processes import list_processes
from nbmem.devices.protocols import CounterUnavailableError

if TYPE_CHECKING:
    from nbmem.records import ProcessMemory

_INSTALL = "Whole-GPU figures need NVIDIA's package: pip install nvidia-ml-py"


@dataclass(frozen=True, slots=True)
class CardMemory:
    """Bytes of a whole card, or of one MIG instance: nvidia-smi's `Memory-Usage`."""

    used: int
    total: int
    free: int = 0
    reserved: int | None = None
    """What the driver and the firmware keep for themselves; None where an old driver counts it as
    used."""
    selector: str = ""
    """The card as `nvidia-smi -i` takes it: the driver's number of it; an instance's UUID."""
    instance: bool = False
    """It is a MIG instance, and these are its figures, not the card's."""
    query: str = ""
    """The call of torch's that tells free and total bytes, where no NVIDIA driver does."""
    lends: bool = False
    """The driver lends it main memory where its own is full (Windows, WSL)."""
    unified: bool = False
    """It has no memory of its own: these are main memory's figures."""
    available: bool = False
    """`free` is what the system calls available, which torch's call does not tell."""
    doubt: str = ""
    """Why the driver's figures were not taken, in a sentence; empty where they were."""


@dataclass(frozen=True, slots=True)
class _Card:
    """A card or MIG instance of the driver's, and what does not change about it."""

    handle: Any
    selector: str
    instance: bool
    lends: bool


class Nvml:
    """The driver's figures; every call raises `CounterUnavailableError` with its reason."""

    def __init__(self) -> None:
        self._pid: int | None = None
        self._api: Any = None
        self._refusal: str | None = None
        self._found: dict[tuple[int | str | None, ...], tuple[_Card | None, str]] = {}

    def memory(self, index: int, uuid: str | None) -> CardMemory:
        """Returns used and total bytes of torch's device `index`.

        Args:
            index: torch's number of the device.
            uuid: its UUID as torch knows it, without a prefix; None before CUDA started.
        """
        card = self._card(index, uuid)
        try:
            info = self._memory_info(card.handle)
        except Exception as error:
            raise CounterUnavailableError(
                f"The NVIDIA driver does not say how full this GPU is: {error}."
            ) from None
        memory = CardMemory(
            used=int(info.used),
            total=int(info.total),
            free=int(info.free),
            reserved=_reserved(info),
            selector=card.selector,
            instance=card.instance,
            lends=card.lends,
        )
        if not _can_be(memory):
            raise CounterUnavailableError(
                "The NVIDIA driver's figures of this GPU can't be true (as on GPUs without memory "
                "of their own), so they are not taken: torch tells more once it uses the GPU."
            )
        return memory

    def processes(self, index: int, uuid: str | None) -> tuple[ProcessMemory, ...]:
        """Returns the processes that use torch's device `index`: nvidia-smi's process table.

        A process that this one may not see, as from inside a container, is missing.
        """
        handle = self._card(index, uuid).handle
        return list_processes(self._api, handle)

    def name(self, index: int, uuid: str | None) -> str:
        """Returns the card's name: nvidia-smi's `Product Name`."""
        handle = self._card(index, uuid).handle
        return _text(self._api.nvmlDeviceGetName(handle))

    def close(self) -> None:
        """Ends nbmem's use of NVML; another user's is not touched (NVML counts)."""
        if self._api is not None and self._pid == os.getpid():
            with contextlib.suppress(Exception):  # the driver went away: nothing to shut down
                self._api.nvmlShutdown()
        self._forget()

    def _forget(self) -> None:
        self._pid = self._api = self._refusal = None
        self._found.clear()

    def _start(self) -> Any:
        if self._pid != os.getpid():  # first use, or a forked child, where handles are void
            self._forget()
            self._pid = os.getpid()
            self._api, self._refusal = _load()
        if self._refusal is not None:
            raise CounterUnavailableError(self._refusal)
        return self._api

    def _card(self, index: int, uuid: str | None) -> _Card:
        api = self._start()
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        key = index, uuid, visible, os.environ.get("CUDA_DEVICE_ORDER")
        if key not in self._found:
            self._found[key] = _look_for_card(api, index, uuid, visible)
        card, refusal = self._found[key]
        if card is None:
            raise CounterUnavailableError(refusal)
        return card

    def _memory_info(self, handle: Any) -> Any:
        version = getattr(self._api, "nvmlMemory_v2", None)
        if version is not None:
            try:  # as nvidia-smi: what the driver keeps for itself is not called used
                return self._api.nvmlDeviceGetMemoryInfo(handle, version=version)
            except Exception:  # a driver older than 510 has the first version only
                pass
        return self._api.nvmlDeviceGetMemoryInfo(handle)


def _load() -> tuple[Any, str | None]:
    try:
        import pynvml  # type: ignore[import-untyped, unused-ignore]
    except ImportError:
        return None, _INSTALL
    except Exception as error:
        return None, f"The package nvidia-ml-py could not be loaded: {error}."
    try:
        pynvml.nvmlInit()
    except Exception as error:
        return None, f"The NVIDIA driver could not be asked: {error}."
    return pynvml, None


def _look_for_card(
    api: Any, index: int, uuid: str | None, visible: str | None
) -> tuple[_Card | None, str]:
    """Returns the card, or None and the reason why there is none."""
    try:
        handle = _own_part(api, _find_card(api, index, uuid, visible))
    except CounterUnavailableError as refused:
        return None, str(refused)
    except Exception as error:
        return None, f"The NVIDIA driver could not tell which card cuda:{index} is: {error}."
    return _Card(handle, _selector(api, handle), _is_instance(api, handle), _lends(api, handle)), ""


def _find_card(api: Any, index: int, uuid: str | None, visible: str | None) -> Any:
    entry = _visible_entry(index, visible)
    if entry is not None and entry.startswith("MIG-"):
        return api.nvmlDeviceGetHandleByUUID(entry)
    if uuid is not None:
        return _by_known_uuid(api, uuid)
    if entry is not None and entry.startswith("GPU-"):
        return _by_uuid_start(api, entry)
    return _by_number(api, index if entry is None else int(entry))


def _visible_entry(index: int, visible: str | None) -> str | None:
    if visible is None:
        return None
    entries = [entry.strip() for entry in visible.split(",")]
    if index >= len(entries):
        raise CounterUnavailableError(f"CUDA_VISIBLE_DEVICES has no entry for cuda:{index}.")
    entry = entries[index]
    if not entry.isdecimal() and not entry.startswith(("GPU-", "MIG-")):
        raise CounterUnavailableError(
            f"The entry for cuda:{index} in CUDA_VISIBLE_DEVICES is no number and no UUID."
        )
    return entry


def _by_known_uuid(api: Any, uuid: str) -> Any:
    bare = uuid.removeprefix("GPU-").removeprefix("MIG-")
    try:
        return api.nvmlDeviceGetHandleByUUID(f"GPU-{bare}")
    except Exception:  # no whole card has it: a MIG instance may
        return api.nvmlDeviceGetHandleByUUID(f"MIG-{bare}")


def _cards(api: Any) -> list[Any]:
    return [api.nvmlDeviceGetHandleByIndex(number) for number in range(api.nvmlDeviceGetCount())]


def _by_uuid_start(api: Any, entry: str) -> Any:
    found = [card for card in _cards(api) if _text(api.nvmlDeviceGetUUID(card)).startswith(entry)]
    if len(found) != 1:
        raise CounterUnavailableError(
            f"{len(found)} cards have a UUID that begins with the entry in CUDA_VISIBLE_DEVICES."
        )
    return found[0]


def _by_number(api: Any, number: int) -> Any:
    cards = _cards(api)
    in_bus_order = os.environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
    if not in_bus_order and len({_text(api.nvmlDeviceGetName(card)) for card in cards}) > 1:
        # CUDA puts the fastest first, the driver goes by the bus: equal cards only keep that order.
        raise CounterUnavailableError(
            "Which card this is will be known once CUDA has started: the machine's cards differ."
        )
    if number >= len(cards):
        raise CounterUnavailableError(f"The NVIDIA driver knows no card number {number}.")
    return cards[number]


def _reserved(info: Any) -> int | None:
    kept = getattr(info, "reserved", None)
    return None if kept is None else int(kept)


def _selector(api: Any, handle: Any) -> str:
    with contextlib.suppress(Exception):  # it is told for the user's own check only
        if _is_instance(api, handle):
            return _text(api.nvmlDeviceGetUUID(handle))
        return str(_number(api.nvmlDeviceGetIndex(handle)))
    return ""


def _is_instance(api: Any, handle: Any) -> bool:
    try:
        return bool(_number(api.nvmlDeviceIsMigDeviceHandle(handle)))
    except Exception:  # cards and drivers without MIG say so by an error
        return False


def _own_part(api: Any, handle: Any) -> Any:
    """Returns the card, or of a divided one its only instance: the whole is no process's."""
    if _is_instance(api, handle):
        return handle
    try:
        divided = api.nvmlDeviceGetMigMode(handle)[0] == 1
    except Exception:  # cards and drivers without MIG say so by an error
        return handle
    if not divided:
        return handle
    instances = _instances(api, handle)
    if len(instances) != 1:
        raise CounterUnavailableError(
            "This GPU is divided into MIG instances: name one by its UUID in CUDA_VISIBLE_DEVICES."
        )
    return instances[0]


def _instances(api: Any, handle: Any) -> list[Any]:
    found = []
    with contextlib.suppress(Exception):  # a driver that does not list them
        for number in range(_number(api.nvmlDeviceGetMaxMigDeviceCount(handle))):
            with contextlib.suppress(Exception):  # a place that no instance has
                found.append(api.nvmlDeviceGetMigDeviceHandleByIndex(handle, number))
    return found


def _lends(api: Any, handle: Any) -> bool:
    """Returns whether the driver puts main memory behind the card: Windows' WDDM, and WSL."""
    try:
        return _number(api.nvmlDeviceGetCurrentDriverModel(handle)) == _WDDM
    except Exception:  # only Windows has models of drivers
        return os.name == "nt" or _is_wsl()


def _is_wsl() -> bool:
    return "microsoft" in platform.release().lower()


_WDDM = 0
"""NVML_DRIVER_WDDM."""


def _can_be(card: CardMemory) -> bool:
    """Returns whether a card can be so full: each figure is a part of the total."""
    parts = (card.used, card.free, card.reserved or 0)
    return card.total > 0 and all(0 <= part <= card.total for part in parts)


def _number(value: Any) -> int:
    return int(getattr(value, "value", value))


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
