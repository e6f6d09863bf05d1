"""A real ipykernel, spoken to as a front end does."""

from __future__ import annotations

import os
import sys

import pytest
from jupyter_client.manager import KernelManager

TIMEOUT = 60


class Kernel:
    """Runs cells in a kernel and gathers what came back."""

    def __init__(self, manager, client):
        self.manager, self.client = manager, client

    def run(self, code, *, cell_id=None, on_output=None, **options):
        """Returns (reply, outputs); `on_output(message)` is called for each as it comes."""
        message = self.client.session.msg("execute_request", _content(code, options))
        if cell_id is not None:
            message["metadata"]["cellId"] = cell_id
        self.client.shell_channel.send(message)
        outputs = []
        for told in self.messages_of(message["header"]["msg_id"]):
            outputs.append(told)
            if on_output is not None:
                on_output(told)
        return self.reply_to(message["header"]["msg_id"]), outputs

    def messages_of(self, parent):
        """Yields the messages of one request until its cell is done."""
        while True:
            message = self.client.get_iopub_msg(timeout=TIMEOUT)
            if message["parent_header"].get("msg_id") != parent:
                continue
            if message["msg_type"] == "status":
                if message["content"]["execution_state"] == "idle":
                    return
                continue
            yield message

    def reply_to(self, parent):
        while True:
            reply = self.client.get_shell_msg(timeout=TIMEOUT)
            if reply["parent_header"].get("msg_id") == parent:
                return reply["content"]

    def value(self, expression):
        """What an expression is in the kernel, through its text."""
        reply = self.client.execute(
            "", silent=True, store_history=False, user_expressions={"value": expression}
        )
        content = self.reply_to(reply)["user_expressions"]["value"]
        assert content["status"] == "ok", content
        return content["data"]["text/plain"]


def _content(code, options):
    return {
        "code": code,
        "silent": False,
        "store_history": True,
        "user_expressions": {},
        "allow_stdin": False,
        "stop_on_error": True,
        **options,
    }


@pytest.fixture(scope="module")
def started(tmp_path_factory):
    home = tmp_path_factory.mktemp("home")
    manager = KernelManager()
    environment = {**os.environ, "IPYTHONDIR": str(home), "HOME": str(home)}
    manager.start_kernel(env=environment, cwd=str(home))
    assert manager.kernel_spec.argv[0] in ("python", sys.executable)
    client = manager.client()
    client.start_channels()
    client.wait_for_ready(timeout=TIMEOUT)
    yield Kernel(manager, client)
    client.stop_channels()
    manager.shutdown_kernel(now=True)


@pytest.fixture
def kernel(started):
    """The module's kernel, its session begun anew."""
    started.run("%reset -f")
    started.run("%unload_ext nbmem")
    started.run("import sys; sys.modules['nbmem.session'].close_session()")  # history and all
    reply, _ = started.run("%load_ext nbmem\nimport nbmem, torch")
    assert reply["status"] == "ok"
    return started
