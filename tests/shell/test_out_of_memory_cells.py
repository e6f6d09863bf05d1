"""Cells that run out of memory: the record, the report, and what is let go of."""

import json
import weakref

import pytest
import torch

import nbmem
from nbmem.history import History

GIB = 2**30
REFUSED = "torch.empty(2**50)"  # 2**52 bytes: more than any machine has
CUDA = (
    "raise torch.OutOfMemoryError('CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a "
    "total capacity of 8.00 GiB of which 512.00 MiB is free. Of the allocated memory 4.00 GiB is "
    "allocated by PyTorch, and 1.00 GiB is reserved by PyTorch but unallocated.')"
)
WRAPPED = """
def step():
    acts = torch.zeros(1024, 1024)
    local.append(acts)
    torch.empty(2**50)
try:
    step()
except RuntimeError as error:
    raise ValueError('step 7 failed') from error
"""
HANDLED = """
try:
    torch.empty(2**50)
except RuntimeError as error:
    print(undefined)
"""


def test_a_real_refusal_of_main_memory_is_told_in_bytes_and_words(notebook):
    notebook.run(f"%%gpumem\n{REFUSED}")
    record = notebook.records[-1]
    assert ("oom", 2**52, "cpu") == (record.status, record.oom.asked, record.oom.device)
    assert "memory  asked for 4.00 PiB on cpu" in notebook.reports[-1]


def test_figures_of_a_device_are_under_the_cell_as_text_and_as_html(notebook):
    notebook.run(f"%%gpumem\n{CUDA}")
    said = "asked for 2.00 GiB on cuda:0 · 512 MiB free of 8.00 GiB · 4.00 GiB allocated, "
    said += "1.00 GiB reserved but not allocated"
    assert said in " ".join(notebook.reports[-1].split())
    (shown,) = (output["data"] for output in notebook.shell.shown)
    assert said in shown["text/html"]


def test_a_cell_that_does_not_fail_has_no_such_line(notebook):
    notebook.run("%%gpumem\nx = 1")
    assert notebook.records[-1].oom is None
    assert "asked for" not in notebook.reports[-1]


def test_an_error_around_it_is_out_of_memory_and_lets_go_of_all_variables(notebook):
    kept = []
    watch = type("Watch", (), {"append": lambda _, t: kept.append(weakref.ref(t))})()
    notebook.names["local"] = watch
    notebook.run("%config NbMem.release_oom_traceback = True")
    notebook.run(f"%%gpumem{WRAPPED}")
    record = notebook.records[-1]
    assert ("oom", "ValueError: step 7 failed", 2**52) == (
        record.status,
        record.error,
        record.oom.asked,
    )
    assert kept[0]() is None


def test_a_mistake_in_the_handler_is_an_error(notebook):
    notebook.run(f"%%gpumem{HANDLED}")
    record = notebook.records[-1]
    assert ("error", None) == (record.status, record.oom)


def test_an_error_that_often_means_it_says_so_below(notebook):
    notebook.run("%%gpumem\nraise RuntimeError('cuDNN error: CUDNN_STATUS_NOT_INITIALIZED')")
    assert "error" == notebook.records[-1].status
    assert "which is often for want of memory." in " ".join(notebook.reports[-1].split())


def test_a_block_of_many_runs_tells_of_the_one_that_failed(notebook):
    blocks = []

    def run():
        for n in range(3):
            with nbmem.measure("step") as block:
                blocks.append(block)
                if n == 2:
                    exec(CUDA)

    with pytest.raises(torch.OutOfMemoryError):
        run()
    assert [None, None, 2 * GIB] == [b.record.oom and b.record.oom.asked for b in blocks]


def test_an_error_of_an_unrecorded_cell_is_asked_nothing_by_nbmem(notebook):
    asked = []

    class Quiet(Exception):
        def __str__(self):
            asked.append(1)
            return "quiet"

    notebook.names["Quiet"] = Quiet
    notebook.run("raise Quiet")
    plain = len(asked)  # IPython's own
    notebook.run("%%gpumem\nraise Quiet")
    assert plain + 1 == len(asked) - plain


def loaded(path):
    history = History()
    assert 1 == history.load(path)
    (record,) = history.records()
    return record


def test_a_saved_history_keeps_the_figures_and_one_without_them_opens(notebook, tmp_path):
    notebook.run(f"%%gpumem\n{CUDA}")
    path = tmp_path / "history.json"
    nbmem.get_history().save(path)
    assert notebook.records[-1].oom == loaded(path).oom
    data = json.loads(path.read_text("ascii"))
    for item in data["records"]:
        del item["oom"]
    path.write_text(json.dumps(data))
    record = loaded(path)
    assert ("oom", None) == (record.status, record.oom)
