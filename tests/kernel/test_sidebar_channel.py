"""The channel of JupyterLab's sidebar, in a real kernel: what a page sends and hears."""

from __future__ import annotations

import itertools
import os
import time
import uuid

import pytest
from conftest import TIMEOUT, Kernel
from jupyter_client.manager import KernelManager

OPENING = {"protocol": 1, "version": "0.1.0", "client": "page-1"}
STEPS = 6
MIB = 2**20
# Allocates a MiB each time that a reading has come, so that every figure is told of once at least.
IN_STEPS = f"""%%gpumem -q climb
import threading
from nbmem.session import current_session
heard, kept = threading.Semaphore(0), []
end = current_session().sampler.subscribe(lambda reading: heard.release())
for step in range({STEPS}):
    kept.append(torch.zeros(2**18))
    assert heard.acquire(timeout=30)
end()"""
BLOCKED = """%%gpumem -q long one
import pathlib, time
kept = torch.zeros(2**18)
print('begun', flush=True)
gate = pathlib.Path({gate!r})
while not gate.exists():
    time.sleep(0.005)"""


class Page:
    """A page of JupyterLab with the extension."""

    def __init__(self, kernel):
        self.kernel, self.client = kernel, kernel.client
        self.id = uuid.uuid4().hex
        self.heard = []
        self.errors = []

    def say(self, kind, data, subshell=None, **more):
        content = {"comm_id": self.id, "data": data, **more}
        message = self.client.session.msg(kind, content)
        if subshell is not None:
            message["header"]["subshell_id"] = subshell
        self.client.shell_channel.send(message)
        return message["header"]["msg_id"]

    def open(self, data=OPENING, subshell=None):
        return self.say("comm_open", data, subshell, target_name="nbmem")

    def send(self, data, subshell=None):
        return self.say("comm_msg", data, subshell)

    def take(self, message):
        """Keeps what a message says to this page, or to all."""
        if message["msg_type"] == "stream" and message["content"]["name"] == "stderr":
            self.errors.append(message["content"]["text"])
        if message["msg_type"] == "comm_msg":
            to = message["content"]["comm_id"]
            if to in (self.id, "nbmem-broadcast"):
                self.heard.append({**message["content"]["data"], "to_all": to != self.id})

    def wait_for(self, kind, number=1, **facts):
        """Returns the message of a kind that came as the `number`-th, once it is there."""
        until = time.monotonic() + TIMEOUT
        while len(found := self.told(kind, **facts)) < number:
            assert time.monotonic() < until, [told["type"] for told in self.heard]
            self.take(self.client.get_iopub_msg(timeout=TIMEOUT))
        return found[number - 1]

    def told(self, kind, **facts):
        return [
            told
            for told in self.heard
            if told["type"] == kind and all(told[name] == fact for name, fact in facts.items())
        ]

    def run(self, code, **options):
        return self.kernel.run(code, on_output=self.take, **options)


@pytest.fixture
def page(kernel):
    made = Page(kernel)
    yield made
    made.say("comm_close", {})
    assert [] == made.errors


@pytest.fixture
def open_page(page):
    page.open()
    page.wait_for("state")
    return page


def begin(page, gate, take=lambda told: None):
    """Starts a cell that ends when the file is there; returns its message's id."""
    code = BLOCKED.format(gate=str(gate))
    content = {
        "code": code,
        "silent": False,
        "store_history": True,
        "user_expressions": {},
        "allow_stdin": False,
    }
    message = page.client.session.msg("execute_request", content)
    message["metadata"]["cellId"] = "c9"
    page.client.shell_channel.send(message)
    while True:
        told = page.client.get_iopub_msg(timeout=TIMEOUT)
        take(told)
        if told["msg_type"] == "stream":
            return message["header"]["msg_id"]


def make_subshell(kernel):
    request = kernel.client.session.msg("create_subshell_request", {})
    kernel.client.control_channel.send(request)
    reply = kernel.client.get_control_msg(timeout=TIMEOUT)
    if reply["content"]["status"] != "ok":
        pytest.skip("this ipykernel has no subshells")
    return reply["content"]["subshell_id"]


def test_a_page_is_greeted_and_gets_a_panel_that_the_kernel_knows(page, kernel):
    page.open()
    hello = page.wait_for("hello")
    assert not hello["to_all"]
    built = page.wait_for("panel")
    assert built["to_all"]
    page.run("from ipywidgets.widgets.widget import _instances")
    assert "'VBox'" == kernel.value(f"type(_instances[{built['model_id']!r}]).__name__")


def test_a_measured_cell_is_told_as_badge_and_present_to_every_page(open_page):
    reply, _ = open_page.run("%%gpumem -q make\nx = torch.zeros(250_000)", cell_id="c1")
    marks = open_page.wait_for("marks")
    assert marks["to_all"]
    (mark,) = marks["marks"]
    number = reply["execution_count"]
    assert ("c1", number) == (mark["cell_id"], mark["number"])
    assert ("▲ 977 KiB", "+977 KiB") == (mark["peak"], mark["stayed"])  # 1,000,000 bytes
    state = open_page.wait_for("state", status="977 KiB in tensors")
    place = {"cell_id": "c1", "number": number, "serial": mark["serial"]}
    assert place == state["costliest"]


def test_the_badge_of_a_cell_comes_before_the_next_of_run_all_has_ended(open_page, tmp_path):
    gate = tmp_path / "gate"
    content = {"code": "%%gpumem -q make\nx = torch.zeros(250_000)", "silent": False}
    first = open_page.client.session.msg("execute_request", content)
    first["metadata"]["cellId"] = "c1"
    open_page.client.shell_channel.send(first)
    request = begin(open_page, gate, open_page.take)
    assert ["c1"] == [mark["cell_id"] for mark in open_page.wait_for("marks")["marks"]]
    gate.touch()
    for message in (first["header"]["msg_id"], request):
        open_page.kernel.reply_to(message)


def test_figures_of_a_running_cell_rise_as_it_allocates_at_most_five_times_a_second(open_page):
    reply, _ = open_page.run(IN_STEPS, cell_id="c5")
    assert "ok" == reply["status"]
    told = open_page.told("live")
    assert {f"[{reply['execution_count']}] climb"} == {each["title"] for each in told}
    assert {"c5"} == {each["cell"]["cell_id"] for each in told}
    assert [*[True] * (len(told) - 1), False] == [each["running"] for each in told]
    figures = [each["text"].split(" · ", 1)[1] for each in told]
    # The last MiB was there before its reading came, so each number of MiB is told of.
    expected = [f"now {n}.00 MiB · peak {n}.00 MiB" for n in range(1, STEPS + 1)]
    assert expected == list(dict.fromkeys(figures))
    times = [each["taken_at"] for each in told if each["running"]]
    assert min(b - a for a, b in itertools.pairwise(times)) > 0.19


def test_a_page_that_comes_in_the_middle_of_a_cell_is_greeted_at_once_by_a_subshell(
    page, kernel, tmp_path
):
    subshell = make_subshell(kernel)
    gate = tmp_path / "gate"
    request = begin(page, gate)
    page.open(subshell=subshell)
    hello = page.wait_for("hello")
    number = hello["live"]["cell"]["number"]
    assert f"The panel comes when cell [{number}] has ended." == hello["waits"]
    assert hello["model_id"] is None
    assert f"[{number}] long one" == hello["live"]["title"]
    assert hello["live"]["text"].endswith("now 1.00 MiB · peak 1.00 MiB")
    page.wait_for("live", running=True)
    page.send({"type": "collect"}, subshell)
    assert hello["waits"] == page.wait_for("trouble")["sentence"]
    assert [] == page.told("panel")
    gate.touch()
    assert "ok" == kernel.reply_to(request)["status"]
    assert page.wait_for("panel")["model_id"] is not None
    page.wait_for("live", running=False)
    assert "c9" == page.wait_for("marks")["marks"][0]["cell_id"]


def test_what_a_page_asks_in_the_middle_of_a_cell_is_done_after_it(open_page, kernel, tmp_path):
    page, subshell = open_page, make_subshell(kernel)
    page.run("import gc\ngc.disable()\nring = [torch.zeros(250_000)]\nring.append(ring)\ndel ring")
    # What the panel's line says is its own; the kernel keeps it for the test to read.
    page.run("from nbmem import frontend\nacts = frontend._current._panel._acts")
    gate = tmp_path / "gate"
    request = begin(page, gate)
    page.send({"type": "collect"}, subshell)
    page.send({"type": "dance"}, subshell)  # answered after the other was taken up
    assert "'dance'" in page.wait_for("trouble")["sentence"]
    gate.touch()
    assert "ok" == kernel.reply_to(request)["status"]
    page.wait_for("state", status="1.00 MiB in tensors")
    assert "Freed 977 KiB" in kernel.value("acts.line.value")
    page.run("gc.enable()")


def test_presses_reach_the_panel_that_was_asked_for_by_a_subshell_that_is_gone(
    page, kernel, tmp_path
):
    subshell = make_subshell(kernel)
    gate = tmp_path / "gate"
    request = begin(page, gate)
    page.open(subshell=subshell)
    page.wait_for("hello")
    gate.touch()
    assert "ok" == kernel.reply_to(request)["status"]
    page.wait_for("panel")
    delete = kernel.client.session.msg("delete_subshell_request", {"subshell_id": subshell})
    kernel.client.control_channel.send(delete)
    assert "ok" == kernel.client.get_control_msg(timeout=TIMEOUT)["content"]["status"]
    page.run("from nbmem import frontend\nacts = frontend._current._panel._acts")
    button = kernel.value("acts._collect.model_id").strip("'")
    press = {"method": "custom", "content": {"event": "click"}}
    content = {"comm_id": button, "data": press}
    kernel.client.shell_channel.send(kernel.client.session.msg("comm_msg", content))
    page.run("pass")
    assert "freed nothing" in kernel.value("acts.line.value")
    page.send({"type": "dance"})
    assert "'dance'" in page.wait_for("trouble")["sentence"]


@pytest.mark.parametrize(
    ("sentence", "data"),
    [
        ("nbmem reads messages of at most 64 KiB", {"type": "refresh", "more": "x" * 5_000_000}),
        ("nbmem does not know the message 'dance'", {"type": "dance"}),
        ("nbmem cannot read a message without named fields", [[[["deep"]]]]),
        ("nbmem finds a cell by its whole number only", {"type": "show_cell", "serial": "1"}),
    ],
)
def test_bad_messages_are_answered_by_a_sentence_and_the_panel_goes_on(open_page, sentence, data):
    open_page.send(data)
    assert open_page.wait_for("trouble")["sentence"].startswith(sentence)
    open_page.run("%%gpumem -q\nx = torch.zeros(250_000)")
    assert "▲ 977 KiB" == open_page.wait_for("marks")["marks"][0]["peak"]


def test_a_page_of_a_later_version_learns_which_is_here(page):
    page.open({**OPENING, "protocol": 2})
    hello = page.wait_for("hello")
    assert {"type", "protocol", "version", "to_all"} == set(hello)
    assert 1 == hello["protocol"]


def test_unloading_says_goodbye_and_loading_again_serves_the_same_page_anew(open_page, kernel):
    open_page.run("%unload_ext nbmem")
    assert "nbmem was unloaded in this kernel." == open_page.wait_for("bye")["sentence"]
    open_page.say("comm_close", {})
    open_page.run("%load_ext nbmem")
    again = Page(kernel)
    again.open()
    assert again.wait_for("panel")["model_id"] != open_page.told("panel")[-1]["model_id"]


def test_an_interrupted_cell_is_told_to_have_ended(open_page, kernel):
    def interrupt(message):
        before = open_page.told("live")
        open_page.take(message)
        if open_page.told("live") and not before:
            kernel.manager.interrupt_kernel()

    reply, _ = kernel.run("%%gpumem -q\nwhile True: pass", on_output=interrupt)
    assert "KeyboardInterrupt" == reply["ename"]
    assert not open_page.wait_for("live", running=False)["running"]
    reply, _ = open_page.run("%%gpumem -q\nx = torch.zeros(25)")
    assert "ok" == reply["status"]


def test_nbmem_that_was_loaded_with_the_kernel_serves_a_page_before_the_first_cell(tmp_path):
    manager = KernelManager()
    home = {"IPYTHONDIR": str(tmp_path), "HOME": str(tmp_path)}
    manager.start_kernel(env={**os.environ, **home}, extra_arguments=["--ext=nbmem"])
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=TIMEOUT)
        kernel = Kernel(manager, client)
        page = Page(kernel)
        page.open(subshell=make_subshell(kernel))
        assert page.wait_for("panel")["model_id"] is not None
        page.run("import torch")
        page.run("%%gpumem -q\nx = torch.zeros(250_000)")
        assert "▲ 977 KiB" == page.wait_for("marks")["marks"][0]["peak"]
        assert [] == page.errors
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
