"""A kernel with a toy device, which stays in the process that registered it."""

from __future__ import annotations

import ast
import os
from contextlib import contextmanager
from pathlib import Path

import pytest
import toy_device
from jupyter_client.manager import KernelManager

HERE = Path(__file__).resolve().parent
TIMEOUT = 60
LOAD = "%load_ext nbmem\nimport nbmem, toy_device, torch"


class Kernel:
    """Runs cells, and reads what they showed and what is in the kernel."""

    def __init__(self, client):
        self._client = client

    def run(self, code):
        """Returns what the cell showed, as text."""
        shown, failed = [], []
        reply = self._client.execute_interactive(
            code, timeout=TIMEOUT, output_hook=lambda message: shown.append(_text(message, failed))
        )
        assert "ok" == reply["content"]["status"], "".join(shown)
        assert [] == failed, "".join(shown)
        return "".join(shown)

    def begin_anew(self):
        """Leaves no name, no record and no cached block of the cells before."""
        self.run("%reset -f")
        self.run("%unload_ext nbmem")
        self.run("import sys; sys.modules['nbmem.session'].close_session()")
        self.run(LOAD)
        self.run("import gc; gc.collect()")

    def note(self, field, device="toy:0"):
        """Returns the code and the sentence of a device's note on a figure; None without one."""
        notes = f"next(r for r in nbmem.read_devices() if r.device == {device!r}).notes"
        told = self.value(f"[(n.code, n.sentence) for n in {notes} if n.field == {field!r}]")
        return told[0] if told else None

    def reading(self, figure, device="toy:0"):
        """Returns a figure of a device's reading."""
        return self.value(
            f"next(r for r in nbmem.read_devices() if r.device == {device!r}).{figure}"
        )

    def last(self, figure):
        """Returns a figure of the last cell's record."""
        return self.value(f"nbmem.get_history().records()[-1].{figure}")

    def fail(self, code):
        """Returns what a cell showed that raised."""
        shown = []
        reply = self._client.execute_interactive(
            code, timeout=TIMEOUT, output_hook=lambda message: shown.append(_text(message, []))
        )
        assert "error" == reply["content"]["status"], "".join(shown)
        return "".join(shown)

    def value(self, expression):
        """Returns what a literal expression is in the kernel."""
        reply = self._client.execute(
            "", silent=True, store_history=False, user_expressions={"value": f"{expression}"}
        )
        content = self._client._recv_reply(reply, timeout=TIMEOUT)["content"]
        told = content["user_expressions"]["value"]
        assert "ok" == told["status"], told
        return ast.literal_eval(told["data"]["text/plain"])


def _text(message, failed):
    content = message["content"]
    if message["msg_type"] == "stream":
        return content["text"]
    if message["msg_type"] == "error":
        failed.append(content["ename"])
        return "\n".join(content["traceback"])
    return content.get("data", {}).get("text/plain", "") + "\n"


@contextmanager
def open_kernel(module="torch.accelerator only", lacks="", late=False, first=""):
    """Starts a kernel with a toy device and nbmem.

    Args:
        module: see `toy_device.register`.
        lacks: see `toy_device.cpp`.
        late: the device comes after nbmem.
        first: a cell before both.
    """
    if toy_device.COMPILER is None:
        pytest.skip("no C++ compiler: the toy device is built from tests/other_device")
    toy_device.build()
    manager = KernelManager()
    path = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    manager.start_kernel(env={**os.environ, "PYTHONPATH": path, "TOY_LACKS": lacks})
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=TIMEOUT)
        kernel = Kernel(client)
        cells = [f"import toy_device\ntoy_device.register({module!r})", LOAD]
        for cell in (first, *(reversed(cells) if late else cells)):
            kernel.run(cell)
        yield kernel
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
