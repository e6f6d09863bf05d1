"""What the sidebar is told of a running cell on a GPU, against torch's own counters."""

import threading

import pytest
import torch

from nbmem.session import current_session

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA GPU here"),
]

MIB = 2**20
PATIENCE = 60


class Ear:
    """Keeps what it is told; `wait` returns once it was told once more."""

    def __init__(self):
        self.heard = []
        self._news = threading.Condition()

    def __call__(self, reading):
        with self._news:
            self.heard.append(reading)
            self._news.notify_all()

    def wait(self):
        """Returns a reading that was begun after this call: the second from now."""
        with self._news:
            until = len(self.heard) + 2
            assert self._news.wait_for(lambda: len(self.heard) >= until, PATIENCE)
            return self.heard[-1]


@pytest.fixture
def ear(shell):
    torch.zeros(1, device="cuda")
    torch.cuda.empty_cache()
    shell.run_line_magic("load_ext", "nbmem")
    made = Ear()
    end = current_session().sampler.subscribe(made)
    shell.user_ns["ear"] = made
    yield made
    end()


STEPS = """
import torch
kept, truth, told = [], [], []
for size in (3 << 20, 1, 50 << 20):
    kept.append(torch.empty(size, dtype=torch.uint8, device="cuda:0"))
    passing = torch.empty(8 << 20, dtype=torch.uint8, device="cuda:0")
    del passing
    truth.append((torch.cuda.memory_allocated(0), torch.cuda.max_memory_allocated(0)))
    told.append(ear.wait())
"""


@pytest.mark.parametrize("cell", [f"%%gpumem -q steps\n{STEPS}", STEPS], ids=["measured", "not"])
def test_figures_of_a_running_cell_are_the_allocators_and_rise_with_it(shell, ear, cell):
    torch.cuda.reset_peak_memory_stats(0)
    assert shell.run_cell(cell).success
    names = shell.user_ns
    assert ["cuda:0"] * 3 == [reading.device for reading in names["told"]]
    assert [now for now, _ in names["truth"]] == [reading.allocated for reading in names["told"]]
    now = [reading.allocated for reading in names["told"]]
    assert [512, 50 * MIB] == [now[1] - now[0], now[2] - now[1]]
    if cell != STEPS:
        assert [top for _, top in names["truth"]] == [reading.peak for reading in names["told"]]
    assert not ear.heard[-1].running


LISTEN = """
import torch
before = torch.cuda.memory_stats(0)
mode = torch.cuda.get_sync_debug_mode()
torch.cuda.set_sync_debug_mode("error")
try:
    for _ in range(3):
        ear.wait()
finally:
    torch.cuda.set_sync_debug_mode(mode)
after = torch.cuda.memory_stats(0)
"""


def test_reading_a_running_cell_neither_synchronizes_nor_resets_a_peak(shell, ear):
    high = torch.empty(40 * MIB, dtype=torch.uint8, device="cuda:0")
    del high
    top = torch.cuda.max_memory_allocated(0)
    assert shell.run_cell(LISTEN).success
    assert shell.user_ns["before"] == shell.user_ns["after"]
    assert top == torch.cuda.max_memory_allocated(0)
    assert () == current_session().troubles.all()
    assert 6 <= len(ear.heard)
