"""What a training cell costs with the panel open: the same measured cell, with a page and without.

One kernel runs both, in turn, and nbmem is loaded anew before each: two processes differ by more
than what is looked for. With a page the sidebar's panel is built, the sampling thread reads
counters while the cell runs, and the panel is redrawn after it. CPU time is that of the whole
process, on one thread of torch's.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psutil
from jupyter_client.manager import KernelManager

from benchmarks.side_by_side import markdown

PAIRS = 20
TIMEOUT = 120
SECONDS = 3
SETUP = """
import time
import torch
%load_ext nbmem
torch.set_num_threads(1)
torch.manual_seed(0)
model = torch.nn.Sequential(
    torch.nn.Conv2d(3, 32, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
    torch.nn.Conv2d(32, 64, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
    torch.nn.Flatten(), torch.nn.Linear(64 * 16 * 16, 128), torch.nn.ReLU(),
    torch.nn.Linear(128, 10),
)
opt = torch.optim.Adam(model.parameters())
images, labels = torch.randn(16, 3, 64, 64), torch.randint(10, (16,))
def train(steps):
    for _ in range(steps):
        opt.zero_grad()
        torch.nn.functional.cross_entropy(model(images), labels).backward()
        opt.step()
began = time.process_time()
train(20)
steps = max(20, int(20 * {seconds} / (time.process_time() - began)))
"""
WATCH = """
from nbmem.session import current_session
thread_seconds = []
def note(reading):
    if reading.running:
        thread_seconds.append(time.thread_time())
end = current_session().sampler.subscribe(note)
"""
"""Its callback runs on the sampling thread, a new one for each cell: its time so far is its own."""
CELL = """%%gpumem -q train
began = time.process_time()
train(steps)
spent = time.process_time() - began"""


class _Kernel:
    """A kernel and the CPU time that its process takes."""

    def __init__(self, manager: KernelManager, client: Any) -> None:
        self._client = client
        self._process = psutil.Process(int(self.ask("__import__('os').getpid()")))
        self._manager = manager
        self.readings = 0

    def run(self, code: str, asked: str = "None") -> str:
        """Runs a cell; returns what an expression is after it."""
        message = self._client.execute(code, user_expressions={"asked": asked})
        content = self._reply(message)
        while True:
            told = self._client.get_iopub_msg(timeout=TIMEOUT)
            self._hear(told)
            idle = told["content"].get("execution_state") == "idle"
            if idle and told["parent_header"].get("msg_id") == message:
                return str(content["user_expressions"]["asked"]["data"]["text/plain"])

    def ask(self, expression: str) -> str:
        """Returns what an expression is, by a request that is no cell."""
        message = self._client.execute("", silent=True, user_expressions={"asked": expression})
        return str(self._reply(message)["user_expressions"]["asked"]["data"]["text/plain"])

    def _reply(self, message: str) -> Any:
        while True:
            reply = self._client.get_shell_msg(timeout=TIMEOUT)
            if reply["parent_header"].get("msg_id") == message:
                assert reply["content"]["status"] == "ok", reply["content"]
                return reply["content"]

    def open_page(self) -> None:
        """Opens the sidebar's comm, as a page does, and waits for the panel."""
        opening = {"protocol": 1, "version": "0.1.0", "client": "benchmark"}
        content = {"comm_id": uuid.uuid4().hex, "target_name": "nbmem", "data": opening}
        self._client.shell_channel.send(self._client.session.msg("comm_open", content))
        self.wait_for("state")

    def wait_for(self, kind: str) -> None:
        """Waits until the kernel tells every page something of this kind."""
        while self._hear(self._client.get_iopub_msg(timeout=TIMEOUT)) != kind:
            pass

    def _hear(self, message: Any) -> str | None:
        if message["content"].get("comm_id") != "nbmem-broadcast":
            return None
        kind = str(message["content"]["data"]["type"])
        self.readings += kind == "live"
        return kind

    def train(self, *, with_page: bool) -> tuple[float, float]:
        """Returns CPU seconds within the cell, and of the process until all is drawn."""
        self.run("%reload_ext nbmem")
        if with_page:
            self.open_page()
            self.run(WATCH)
            time.sleep(1.0)  # building it was the page's cost, not the cell's
        before = self._seconds()
        inside = float(self.run(CELL, "spent"))
        # Drawing is put off by a tenth of a second or two, and listing what lives by as much.
        time.sleep(1.0)
        return inside, self._seconds() - before

    def _seconds(self) -> float:
        times = self._process.cpu_times()
        return float(times.user + times.system)


@contextmanager
def _kernel() -> Iterator[_Kernel]:
    manager = KernelManager()
    with tempfile.TemporaryDirectory() as home:
        manager.start_kernel(env={**os.environ, "IPYTHONDIR": home, "HOME": home})
        client = manager.client()
        client.start_channels()
        client.wait_for_ready(timeout=TIMEOUT)
        try:
            yield _Kernel(manager, client)
        finally:
            client.stop_channels()
            manager.shutdown_kernel(now=True)


def panel_cost_table(pairs: int = PAIRS) -> str:
    """A training cell with a page that looks on, against one without."""
    with _kernel() as kernel:
        kernel.run(SETUP.replace("{seconds}", str(SECONDS)))
        told = _pairs(kernel, pairs)
        steps, heard = kernel.ask("steps"), kernel.readings / (pairs + 1)
        thread = float(kernel.ask("thread_seconds[-1]"))
    names = "within the cell", "until the panel is drawn"
    rows = [[name, *_row([pair[n] for pair in told])] for n, name in enumerate(names)]
    inside = statistics.median(pair[0][1] for pair in told)
    share = f"{1 + thread / inside:.4f}"
    rows.append(["the sampling thread alone", "", f"{thread:.4f}", share, ""])
    title = f"{SECONDS} s of training, {steps} steps, {heard:.0f} readings"
    return markdown([title, "without, s", "panel open, s", "ratio", "of all pairs"], rows)


def _pairs(kernel: _Kernel, pairs: int) -> list[list[tuple[float, float]]]:
    """Returns of each pair, for each way of counting, the seconds without and with the panel."""
    told = []
    for number in range(pairs + 1):
        order = (False, True) if number % 2 else (True, False)
        spent = {with_page: kernel.train(with_page=with_page) for with_page in order}
        if number:  # the first warms up
            told.append(list(zip(spent[False], spent[True], strict=True)))
    return told


def _row(pairs: list[tuple[float, float]]) -> list[str]:
    ratios = [shown / bare for bare, shown in pairs]
    middle = [f"{statistics.median(side):.2f}" for side in zip(*pairs, strict=True)]
    spread = f"{min(ratios):.3f}–{max(ratios):.3f}"
    return [*middle, f"{statistics.median(ratios):.3f}", spread]


if __name__ == "__main__":
    print(panel_cost_table())
