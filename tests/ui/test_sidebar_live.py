"""Figures that move while a cell runs."""

from __future__ import annotations

from sidebar_page import LOAD, expect, row


def test_figures_move_while_a_cell_runs_and_after_a_reload_in_its_middle(book):
    first, second = book.gate(), book.gate()
    it = book(
        LOAD,
        f"%%gpumem fill\nparts = [torch.ones(4 * 1024 * 1024)]\n{first.code}\n"
        f"parts.append(torch.ones(4 * 1024 * 1024))\n{second.code}",
    )
    it.run(0)
    expect(it.docked).to_be_visible()
    strip = it.sidebar.get_by_role("group", name="Running cell")
    it.start(1)
    expect(strip).to_contain_text("[2] fill")
    expect(strip).to_contain_text("now 16.0 MiB")
    first.open()
    expect(strip).to_contain_text("now 32.0 MiB")
    expect(strip).to_contain_text("peak 32.0 MiB")
    it.reload_busy()
    expect(strip).to_contain_text("now 32.0 MiB")
    second.open()
    expect(row(it.docked, "Cells", "fill")).to_contain_text("+32.0")
    expect(strip).to_contain_text("○[2] fill")


def test_figures_that_stand_still_say_how_old_they_are(book):
    gate = book.gate()
    hold = f"import ctypes\nctypes.PyDLL(None).system({gate.shell!r}.encode())"
    start = book.gate()
    it = book(LOAD, f"%%gpumem hold\nx = torch.ones(1024 * 1024)\n{start.code}\n{hold}")
    it.run(0)
    expect(it.docked).to_be_visible()
    it.start(1)
    strip = it.sidebar.get_by_role("group", name="Running cell")
    expect(strip).to_contain_text("now 4.00 MiB")
    start.open()
    it.says("figures of 2 s ago")
    gate.open()
    expect(row(it.docked, "Cells", "hold")).to_be_visible()
    expect(strip).not_to_contain_text("ago")
