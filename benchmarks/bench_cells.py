"""What a cell costs while nbmem listens, and what a thousand records weigh."""

from __future__ import annotations

import gc
import subprocess
import sys
import tracemalloc

from IPython.core.interactiveshell import InteractiveShell

from benchmarks.side_by_side import Unmeasured, interleave, markdown

CELLS = 100


def _shell() -> InteractiveShell:
    from traitlets.config import Config

    config = Config()
    config.HistoryManager.enabled = False
    return InteractiveShell(config=config)


def _run_cells(shell: InteractiveShell, code: str) -> None:
    for _ in range(CELLS):
        shell.run_cell(code, store_history=True)


def card_cell_table() -> str:
    """The same where a card is measured. Raises `Unmeasured` where there is none."""
    import torch

    if not torch.cuda.is_available():
        raise Unmeasured("no CUDA card")
    torch.zeros(1, device="cuda")  # before that a card is not measured
    return f"On {torch.cuda.get_device_name()}.\n\n{cell_table()}"


def cell_table(rounds: int = 15) -> str:
    """A `pass` cell, bare and with nbmem: loaded, recording without and with the scan."""
    from nbmem.session import close_session, current_session

    shell = _shell()

    def bare() -> None:
        close_session()
        _run_cells(shell, "pass")

    def listed() -> None:
        bare()
        for _ in range(CELLS):
            gc.get_objects()

    def loaded() -> None:
        current_session(shell)
        _run_cells(shell, "pass")

    def counters() -> None:
        session = current_session(shell)
        session.recording, session.settings.scan = True, False
        _run_cells(shell, "pass")

    def scanned() -> None:
        session = current_session(shell)
        session.recording, session.settings.scan = True, True
        _run_cells(shell, "pass")

    timings = interleave(
        {
            "bare": bare,
            "bare, and `gc.get_objects()`": listed,
            "nbmem loaded, not recording": loaded,
            "recorded, scan off": counters,
            "recorded, with what stayed": scanned,
        },
        rounds,
    )
    close_session()
    base = timings["bare"]
    rows = []
    for name, timing in timings.items():
        more = (timing.median - base.median) / CELLS * 1e3
        per_cell = timing.median / CELLS * 1e3
        rows.append([name, f"{per_cell:.3f}", f"{more:+.3f}", timing.ratio_to(base)])
    return markdown(["`pass` cell", "ms a cell", "ms over bare", "ratio"], rows)


_WEIGH = """
import gc, sys, tracemalloc
from benchmarks.bench_cells import _shell
shell = _shell()
import torch
shell.run_cell("%load_ext nbmem"); shell.run_cell("import torch")
from nbmem.session import current_session
session = current_session()
session.recording = True
def cells(number):
    for n in range(number):
        code = sys.argv[1].replace("N", str(n % 7))
        shell.run_cell(code, store_history=True)
        shell.user_ns["Out"].clear()
cells(20)
gc.collect(); gc.freeze()  # so that each scan is short; nothing of what is weighed is in there
tracemalloc.start()
before = tracemalloc.get_traced_memory()[0]
cells(1000)
gc.collect()
kept = tracemalloc.take_snapshot().filter_traces(
    [tracemalloc.Filter(True, "*/nbmem/*")]).statistics("filename")
print(sum(stat.size for stat in kept), len(session.history))
"""

_CELLS = {
    "`x = torch.zeros(N + 1)`": "x = torch.zeros(N + 1)",
    "100 tensors made and kept": "kept = [torch.zeros(N + 1) for _ in range(100)]",
    "a model of 100 layers made anew": (
        "model = torch.nn.Sequential(*[torch.nn.Linear(4, 4) for _ in range(100)])"
    ),
}


def memory_table() -> str:
    """Bytes that nbmem's own code holds after 1,000 recorded cells."""
    rows = []
    for name, code in _CELLS.items():
        told = subprocess.check_output([sys.executable, "-c", _WEIGH, code], text=True)
        size, records = map(int, told.split()[-2:])
        rows.append([name, str(records), f"{size / 2**20:.1f} MiB"])
    return markdown(["1,000 recorded cells of", "records", "held by nbmem"], rows)


def main() -> None:
    """Prints both tables."""
    print(cell_table(), memory_table(), sep="\n\n")


if __name__ == "__main__":
    gc.collect()
    assert not tracemalloc.is_tracing()
    main()
