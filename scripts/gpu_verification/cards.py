"""What the tests run on: the cards, the driver, and whether they are emulated."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
from contextlib import suppress
from dataclasses import asdict, dataclass

EMULATED_NAME = "NVIDIA Emulated"
"""What emulated cards are called unless `EMULATED_CUDA_NAME` says otherwise."""
_SYMBOL = "emulated_cuda_calls"
_SETTINGS = "EMULATED_CUDA_"


@dataclass(frozen=True, slots=True)
class Platform:
    """What a run is evidence for."""

    cards: tuple[str, ...]
    """Names of the visible cards: `torch.cuda.get_device_name()`."""
    driver: str | None
    """nvidia-smi's driver version; None if it can't be asked."""
    torch: str
    """Without the suffix of the build: `2.11.0`."""
    runtime: str
    """`CUDA 13.0`, `ROCm 6.4`."""
    emulated: bool

    @property
    def card(self) -> str:
        """The cards in one text: `NVIDIA H200`, `2 × NVIDIA H200`."""
        names = dict.fromkeys(self.cards)
        told = [(self.cards.count(name), name) for name in names]
        return " + ".join(f"{count} × {name}" if count > 1 else name for count, name in told)


def read_platform() -> Platform:
    """Returns what this process computes on; starts CUDA.

    Raises:
        RuntimeError: torch sees no card.
    """
    import torch

    if not torch.cuda.is_available():
        raise RuntimeError(
            f"torch {torch.__version__} sees no GPU here: set PYTHON to an interpreter with a "
            "CUDA build of torch, on a machine with a GPU."
        )
    torch.zeros(1, device="cuda")
    names = tuple(torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count()))
    hip = getattr(torch.version, "hip", None)
    return Platform(
        cards=names,
        driver=_driver(),
        torch=torch.__version__.partition("+")[0],
        runtime=f"ROCm {hip}" if hip else f"CUDA {torch.version.cuda}",
        emulated=is_emulated(names),
    )


def is_emulated(names: tuple[str, ...]) -> bool:
    """Returns whether the cards are emulated: by the emulation's library here, or their name.

    Raises:
        RuntimeError: only the environment speaks of emulated cards; neither column may be claimed.
    """
    if _library_is_loaded() or any(EMULATED_NAME in name for name in names):
        return True
    settings = sorted(name for name in os.environ if name.startswith(_SETTINGS))
    if settings:
        raise RuntimeError(
            f"{', '.join(settings)} is set, but these cards are not emulated: unset it."
        )
    return False


def _library_is_loaded() -> bool:
    if hasattr(ctypes.CDLL(None), _SYMBOL):
        return True
    with suppress(OSError), open("/proc/self/maps") as maps:
        return "emulatedcuda" in maps.read()
    return False


def _driver() -> str | None:
    with suppress(Exception):
        import pynvml

        pynvml.nvmlInit()
        return str(pynvml.nvmlSystemGetDriverVersion())
    with suppress(Exception):
        asked = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        return subprocess.check_output(asked, text=True, timeout=30).split()[0]
    return None


if __name__ == "__main__":
    print(json.dumps(asdict(read_platform())))
