"""Texts of real out-of-memory errors, torch 1.0 to 2.14: each figure in them is in the record."""

import re

import pytest
import torch
from recordings import messages, needs_recordings

from nbmem.session.endings import failure_of

pytestmark = needs_recordings

MESSAGES = messages()
UNITS = {"bytes": 1} | {
    prefix + infix + "B": 1024**power
    for power, prefix in enumerate("KMG", start=1)
    for infix in ("", "i")
}
FIELDS = (
    "asked",
    "free",
    "capacity",
    "allowed",
    "allocated",
    "reserved",
    "cached",
    "private_pools",
    "other",
    "this_process",
)
LIE = 2**63
DEVICES = {"hip": "cuda", "xpu": "xpu", "mps": "mps", "cpu": "cpu"}


def figures_in(text):
    """Returns every size in a text, read without nbmem."""
    text = text.replace("larger than 4GB!", "")
    text = re.sub(r"\(([\d.]+)/([\d.]+) GiB\)", r"\1 GiB \2 GiB", text)
    found = re.findall(r"([\d.]+)\s?(bytes|[KMG]i?B)", text)
    return [float(number) * UNITS[unit] for number, unit in found]


def error_of(message):
    kind = torch.OutOfMemoryError if message["kind"].startswith(("cuda", "hip")) else RuntimeError
    return (ValueError if message["kind"] == "vllm" else kind)(message["text"])


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message["id"])
def test_each_real_text_is_out_of_memory_and_each_of_its_figures_is_told(message):
    error = error_of(message)
    ending = failure_of(type(error), error)
    assert "oom" == ending.status
    told = [getattr(ending.oom, field) for field in FIELDS]
    told += [process.bytes for process in ending.oom.processes]
    for figure in figures_in(message["text"]):
        near = [size for size in told if size is not None and abs(size - figure) < 1]
        assert bool(near) == (figure < LIE), figure
    lies = [note for note in ending.oom.notes if note.code == "not_trusted"]
    assert len([f for f in figures_in(message["text"]) if f >= LIE]) == len(lies)


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message["id"])
@pytest.mark.parametrize("kind", [RuntimeError, Exception, torch.OutOfMemoryError])
def test_the_type_that_carries_a_text_may_be_another(message, kind):
    assert "oom" == failure_of(kind, kind(message["text"])).status
    wrapped = kind(f"step 3 failed: RuntimeError: {message['text']}")
    assert "oom" == failure_of(kind, wrapped).status


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message["id"])
def test_the_device_is_the_one_that_the_text_names(message):
    error = error_of(message)
    device = failure_of(type(error), error).oom.device
    type_ = DEVICES.get(message["kind"].partition("-")[0], "cuda")
    number = re.search(r"GPU\s+(\d+)|cuda:(\d+)", message["text"])
    if type_ == "mps":
        assert "mps:0" == device
    elif number is None:
        assert type_ == device
    else:
        assert f"{type_}:{number[1] or number[2]}" == device


def test_processes_are_told_by_number():
    (message,) = (m for m in MESSAGES if "Process 21197" in m["text"])
    error = error_of(message)
    oom = failure_of(type(error), error).oom
    assert [(21197, 366), (21200, 3481), (21203, 484)] == [
        (p.pid, p.bytes >> 20) for p in oom.processes if p.pid != 21194
    ]  # 3.40 GiB are 3481.6 MiB
