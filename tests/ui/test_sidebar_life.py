"""The sidebar through a kernel's life: loading, unloading, restart, death, a reloaded page."""

from __future__ import annotations

import pytest
from sidebar_page import FEATS, LOAD, expect, row


def test_loading_in_a_cell_brings_the_panel_and_unloading_leaves_its_past(book):
    it = book(LOAD, FEATS, "%unload_ext nbmem", "%load_ext nbmem")
    it.says(f"nbmem is not loaded in {it.path.name}")
    it.run(0, 1)
    expect(row(it.docked, "Live tensors", "feats")).to_contain_text("16.0")
    it.run(2)
    it.says("Past: what was shown before nbmem was unloaded")
    expect(it.docked).to_have_count(0)
    past = it.sidebar.locator(".nbmem-copy")
    expect(past.get_by_role("row", name="feats 16.0 U")).to_be_visible()
    expect(it.sidebar.get_by_role("button", name="Load nbmem")).to_be_visible()
    it.run(3)
    expect(row(it.docked, "Live tensors", "feats")).to_contain_text("16.0")
    expect(past).to_have_count(0)


def test_run_all_that_ends_in_an_error_brings_the_panel_all_the_same(book):
    it = book(LOAD, FEATS, "1 / 0")
    it.says(f"nbmem is not loaded in {it.path.name}")
    it.page.evaluate(
        "() => { window.jupyterapp.commands.execute('notebook:run-all-cells'); return 0; }"
    )
    expect(row(it.docked, "Live tensors", "feats")).to_contain_text("16.0")


def test_widgets_whose_comms_the_user_closed_are_built_anew(book):
    close = (
        "for each in list(get_ipython().kernel.comm_manager.comms.values()):\n"
        "    if each.target_name != 'nbmem': each.close()"
    )
    it = book(LOAD, close, FEATS)
    it.run(0)
    expect(it.docked).to_be_visible()
    it.run(1, 2)
    expect(row(it.docked, "Live tensors", "feats")).to_contain_text("16.0")


def test_a_restarted_kernel_leaves_its_past_and_can_be_loaded_again(book):
    it = book(LOAD, FEATS)
    it.run(0, 1)
    expect(row(it.docked, "Live tensors", "feats")).to_be_visible()
    it.restart()
    it.says("Past: what the kernel last showed before its restart")
    past = it.sidebar.locator(".nbmem-copy")
    expect(past.get_by_role("row").filter(has_text="make feats")).to_be_visible()
    it.press("Load nbmem")
    expect(it.docked).to_contain_text("Run a cell with %%gpumem")
    expect(past).to_have_count(0)


def test_a_kernel_that_dies_in_a_cell_leaves_its_past(book):
    it = book(LOAD, FEATS, "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)")
    it.run(0, 1)
    expect(row(it.docked, "Live tensors", "feats")).to_be_visible()
    it.start(2)
    it.says("Past: what the kernel last showed before it died")
    expect(it.sidebar.locator(".nbmem-copy")).to_contain_text("make feats")
    it.page.get_by_role("dialog").get_by_role("button", name="Ok").click()
    expect(it.sidebar.get_by_role("button", name="Load nbmem")).to_be_visible()


def test_an_act_that_waits_when_the_kernel_dies_is_never_done(book):
    gate = book.gate()
    it = book(LOAD, FEATS, f"{gate.code}\nimport signal\nos.kill(os.getpid(), signal.SIGKILL)")
    it.run(0, 1)
    row(it.docked, "Live tensors", "feats").click()
    it.start(2)
    gate.wait(it.page)
    it.docked.get_by_role("button", name="del feats (16.0 MiB)", exact=True).click()
    it.says("waits for cell [3] to end.")
    gate.open()
    it.says("Past: what the kernel last showed before it died")
    expect(it.sidebar.locator(".nbmem-copy")).to_contain_text("feats")
    it.page.get_by_role("dialog").get_by_role("button", name="Ok").click()
    it.press("Load nbmem")
    expect(it.docked).to_contain_text("Run a cell with %%gpumem")
    expect(it.docked).not_to_contain_text("waits for")


def test_a_kernel_that_was_shut_down_leaves_its_past_and_another_can_be_chosen(book):
    it = book(LOAD, FEATS)
    it.run(0, 1)
    expect(row(it.docked, "Live tensors", "feats")).to_be_visible()
    it.shut_down()
    it.says("has no kernel: choose one to see its memory.")
    it.says("Past: what the kernel last showed before it was shut down")
    expect(it.sidebar.locator(".nbmem-copy")).to_contain_text("make feats")
    expect(it.sidebar.get_by_role("button", name="Choose a kernel…")).to_be_visible()


def test_a_comm_that_the_kernel_closes_is_opened_again(book):
    close = (
        "for each in list(get_ipython().kernel.comm_manager.comms.values()):\n"
        "    if each.target_name == 'nbmem': each.close()"
    )
    it = book(LOAD, close, FEATS)
    it.run(0)
    expect(it.docked).to_be_visible()
    it.run(1, 2)
    expect(row(it.docked, "Live tensors", "feats")).to_contain_text("16.0")
    expect(it.sidebar.get_by_role("button", name="Dismiss")).to_be_hidden()


def test_a_reloaded_page_shows_the_present_again(book):
    it = book(LOAD, FEATS)
    it.run(0, 1)
    expect(row(it.docked, "Live tensors", "feats")).to_be_visible()
    it.reload()
    it.show()
    expect(row(it.docked, "Live tensors", "feats")).to_contain_text("16.0")
    expect(it.docked).to_have_count(1)


def test_a_kernel_that_tells_late_of_its_widgets_has_the_panel_drawn_late(book):
    gate = book.gate()
    late = (
        "from ipywidgets import Widget\n"
        "tell = Widget._handle_control_comm_msg\n"
        f"def tell_late(message):\n    exec({gate.code!r})\n    tell(message)\n"
        "Widget._handle_control_comm_msg = tell_late"
    )
    it = book(LOAD, FEATS, late)
    it.run(0, 1, 2)
    expect(row(it.docked, "Live tensors", "feats")).to_be_visible()
    model = it.ask("__import__('nbmem').frontend._current._panel.widget.model_id")
    it.reload()
    it.show()
    it.says("The panel comes as soon as the kernel is free.")
    gate.open()
    expect(row(it.docked, "Live tensors", "feats")).to_contain_text("16.0")
    assert model == it.ask("__import__('nbmem').frontend._current._panel.widget.model_id")


@pytest.mark.parametrize("part", ["children[2]", "children[2].children[0].children[0]"])
def test_a_panel_of_which_a_page_knows_not_every_part_is_built_anew(book, part):
    """As after a reload while the kernel was about to build it."""
    lose = (
        "import nbmem.frontend\n"
        "from ipywidgets.widgets.widget import _instances\n"
        f"_ = _instances.pop(nbmem.frontend._current._panel.widget.{part}.model_id)"
    )
    it = book(LOAD, FEATS, lose)
    it.run(0, 1, 2)
    expect(row(it.docked, "Live tensors", "feats")).to_be_visible()
    it.reload()
    it.show()
    expect(it.sidebar.locator(".jupyter-widgets-error-widget")).to_have_count(0)
    expect(row(it.docked, "Live tensors", "feats")).to_contain_text("16.0")
    model = it.ask("__import__('nbmem').frontend._current._panel.widget.model_id")
    expect(it.sidebar.locator(".nbmem-Docked[data-settled=drawn]")).to_be_visible()
    assert model == it.ask("__import__('nbmem').frontend._current._panel.widget.model_id")
    told = ("console: Error: widget model not found", "console: Comm not found for comm id")
    it.errors = [each for each in it.errors if not each.startswith(told)]


def test_a_page_that_comes_in_mid_cell_shows_the_panel_when_the_cell_has_ended(book):
    before, after = book.gate(), book.gate()
    it = book(f"{before.code}\nimport torch\n%load_ext nbmem", f"%reload_ext nbmem\n{after.code}")
    it.start(0)
    before.wait(it.page)
    it.reload_busy()
    it.says(it.path.name)
    expect(it.docked).to_have_count(0)
    before.open()
    expect(it.docked).to_be_visible()
    it.start(1)
    after.wait(it.page)
    it.reload_busy()
    it.says("The panel ")
    after.open()
    expect(it.docked).to_be_visible()
