"""Cells of the notebook and the sidebar: badges, jumps, the status bar, the alert, settings."""

from __future__ import annotations

import json

from sidebar_page import FEATS, LOAD, LONG, Book, expect, row

LONG_TEXT = "\n".join(f"# line {n}" for n in range(40))
ACTIVE = "() => window.jupyterapp.shell.currentWidget.content.activeCellIndex"
MARKED = """() => [...document.querySelectorAll('.jp-NotebookPanel .jp-Cell')]
  .findIndex((cell) => cell.classList.contains('nbmem-jumped'))"""


def jumps_to(book: Book, index: int) -> None:
    """Waits until a cell is the active one and is marked."""
    book.page.wait_for_function(f"() => ({ACTIVE})() === {index}", timeout=LONG)
    book.page.wait_for_function(f"() => ({MARKED})() === {index}", timeout=LONG)
    expect(book.page.locator(".jp-Notebook .jp-Cell").nth(index)).to_be_in_viewport()


def go_last(book: Book, index: int) -> None:
    """Makes the last cell the active one, as a user who went on does."""
    book.page.evaluate(
        """async (index) => {
          const { content } = window.jupyterapp.shell.currentWidget;
          content.activeCellIndex = index;
          await content.scrollToItem(index);
          return 0;
        }""",
        index,
    )


def test_rows_bars_and_leaks_take_the_reader_to_their_cell(book):
    fail = (
        "def train():\n    acts = torch.ones(4 * 1024 * 1024)\n    raise ValueError('no')\ntrain()"
    )
    it = book(LOAD, FEATS, f"%%gpumem again\n{fail}", LONG_TEXT, LONG_TEXT, "1")
    it.run(0, 1, 2)
    go_last(it, 5)
    row(it.docked, "Cells", "make feats").get_by_role("button", name="Go to cell [2]").click()
    jumps_to(it, 1)
    go_last(it, 5)
    it.docked.get_by_role("button", name="Leaks", exact=True).click()
    leak = row(it.docked, "Leaks", "traceback of")
    leak.get_by_role("button", name="Go to cell [3]").click()
    jumps_to(it, 2)
    go_last(it, 5)
    it.page.evaluate(
        "() => { window.jupyterapp.commands.execute('nbmem:jump-to-costliest-cell'); return 0; }"
    )
    jumps_to(it, 2)
    go_last(it, 5)
    it.wait_for_bars(["[2]", "[3]"])
    plot = it.docked.locator(".nbmem-plot")
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    eighth = (box["width"] - 50) / 8  # as wide as a bar where there are few
    it.page.mouse.click(box["x"] + 50 + eighth / 2, box["y"] + 0.75 * box["height"])
    jumps_to(it, 1)


def test_a_cell_that_is_gone_is_told_so(book):
    it = book(LOAD, FEATS, "1")
    it.run(0, 1)
    go = row(it.docked, "Cells", "make feats").get_by_role("button", name="Go to cell [2]")
    expect(go).to_be_visible()
    it.page.evaluate(
        """() => {
          const { content } = window.jupyterapp.shell.currentWidget;
          content.activeCellIndex = 1;
          content.deselectAll();
          window.jupyterapp.commands.execute('notebook:delete-cell');
          return 0;
        }"""
    )
    expect(it.page.locator(".jp-NotebookPanel:visible .jp-Cell")).to_have_count(2)
    go.click()
    it.says(f"Cell [2] is no longer in {it.path.name}.")


def test_a_measured_cell_has_a_badge_that_opens_its_report(book):
    it = book(LOAD, FEATS, "%%gpumem quiet\nnothing = 1")
    it.run(0, 1, 2)
    cells = it.page.locator(".jp-NotebookPanel:visible .jp-Cell")
    badge = cells.nth(1).get_by_role("button", name="[2] make feats")
    expect(badge).to_contain_text("16.0 MiB")
    expect(badge).to_contain_text("+16.0 MiB")
    expect(cells.nth(2).get_by_role("button", name="[3] quiet")).not_to_contain_text("+")
    expect(cells.nth(0).locator(".nbmem-badge")).to_have_count(0)
    badge.click()
    expect(it.docked).to_contain_text("[2] make feats · ok")
    expect(row(it.docked, "Cells", "make feats")).to_have_attribute("aria-selected", "true")
    it.run(1)
    expect(cells.nth(1).get_by_role("button", name="[4] make feats")).to_be_visible()
    it.restart()
    expect(cells.nth(1).locator(".nbmem-badge")).to_have_count(0)


def test_the_status_bar_tells_the_device_and_opens_the_sidebar(book):
    it = book(LOAD, FEATS, "del feats")
    it.run(0, 1)
    bar = it.page.get_by_role("button", name="Device memory:")
    expect(bar).to_contain_text("16.0 MiB")
    it.page.evaluate(
        "() => { window.jupyterapp.commands.execute('application:toggle-right-area'); return 0; }"
    )
    expect(it.sidebar).to_be_hidden()
    bar.click()
    expect(it.sidebar).to_be_visible()
    it.run(2)
    expect(bar).not_to_contain_text("16.0")


def settings(book: Book, **values) -> None:
    """Changes the settings as the settings' page does, and reloads."""
    url = f"{book.url}/lab/api/settings/nbmem:plugin"
    answer = book.page.request.put(url, data=json.dumps({"raw": json.dumps(values)}))
    assert answer.ok
    book.reload()
    book.show()


def test_badges_and_status_bar_go_and_an_alert_comes_by_the_settings(book):
    it = book(LOAD, FEATS)
    it.run(0, 1)
    badges = it.page.locator(".nbmem-badge")
    bar = it.page.get_by_role("button", name="Device memory:")
    expect(badges).to_have_count(1)
    expect(row(it.docked, "Live tensors", "feats")).to_be_visible()  # built before the reload
    alert = it.page.get_by_role("alert").filter(has_text="cpu holds")
    expect(alert).to_have_count(0)
    try:
        settings(it, badges=False, statusBar=False, alertShare=1e-9)
        expect(row(it.docked, "Live tensors", "feats")).to_be_visible()
        expect(badges).to_have_count(0)
        expect(bar).to_be_hidden()
        expect(alert).to_contain_text("16.0 MiB")
    finally:
        settings(it)
    expect(badges).to_have_count(1)
    expect(bar).to_be_visible()
