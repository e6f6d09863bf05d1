"""Takes docs/images/sidebar-*.png in a real JupyterLab: the sidebar in its main states."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Page

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
sys.path.insert(0, str(ROOT / "tests" / "ui"))
sys.path.insert(0, str(ROOT / "scripts"))

from lab_page import LONG, expect, row  # noqa: E402
from lab_server import serve  # noqa: E402
from sidebar_page import Book, Gate  # noqa: E402
from take_screenshots import DRAWN, THEME, THEMED, THEMES, open_page  # noqa: E402

PAGE = {"width": 1000, "height": 720}
WIDE = {"width": 1000, "height": 760}

CELLS = (
    "import torch\n%load_ext nbmem",
    """%%gpumem make the model
model = torch.nn.Sequential(torch.nn.Linear(1024, 4096), torch.nn.ReLU(), torch.nn.Linear(4096, 16))
optimizer = torch.optim.Adam(model.parameters())""",
    """%%gpumem load the data
feats = torch.randn(4096, 1024)
labels = torch.randint(0, 16, (4096,))""",
    """%%gpumem train one epoch
def step(rows):
    loss = torch.nn.functional.cross_entropy(model(feats[rows]), labels[rows])
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss
losses = [step(slice(n, n + 512)) for n in range(0, 4096, 512)]""",
    """%%gpumem evaluate, with a mistake
def evaluate(rows):
    acts = model[:2](rows)
    return model[2](acts) @ torch.ones(17)
evaluate(feats)""",
)

LONG_CELL = """%%gpumem train more
kept = [torch.ones(8 * 1024 * 1024)]
{gate}"""

SIDE = """(width) => {
  const split = document.querySelector('#nbmem-panel').closest('.lm-SplitPanel');
  const total = split.clientWidth;
  window.jupyterapp.shell._hsplitPanel.setRelativeSizes([0, total - width, width]);
  return 0;
}"""

COLLAPSE = """() => {
  const { shell, commands } = window.jupyterapp;
  if (!shell.leftCollapsed) commands.execute('application:toggle-left-area');
  return 0;
}"""


def main() -> None:
    """Runs one notebook through the sidebar's states, and leaves a picture of each."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as home,
        serve(Path(home)) as (url, root),
        open_page() as page,
    ):
        gate = Gate(root / "gate")
        book = Book(page, url, root / "train.ipynb")
        book.write((*CELLS, LONG_CELL.format(gate=gate.code)))
        page.set_viewport_size(PAGE)
        book.open()
        page.evaluate(COLLAPSE)
        book.show()
        _take_all(book, gate)
        book.close()


def _take_all(book: Book, gate: Gate) -> None:
    page = book.page
    _resize(page, 350)
    book.says("nbmem is not loaded")
    _take_in_both(book, "not-loaded")
    book.run(*range(len(CELLS)))
    book.wait_for_charts("chart.columns.x.length === 4")
    _look_at(book, 1)
    for theme in THEMES:
        _change(book, theme)
        _take_page(page, f"sidebar-{theme}")
    _change(book, "light")
    _take_leaks(book)
    _resize(page, 250)
    _take_in_both(book, "250")
    _resize(page, 350)
    _take_live(book, gate)
    _take_wide(book)
    book.restart()
    expect(book.sidebar.get_by_role("button", name="Load nbmem")).to_be_visible()
    _take_in_both(book, "past")


def _look_at(book: Book, cell: int) -> None:
    """Scrolls the notebook to a cell, which is not the one with the cursor."""
    book.page.evaluate(
        "async (index) => { const { content } = window.jupyterapp.shell.currentWidget;"
        " await content.scrollToItem(index, 'start'); return 0; }",
        cell,
    )


def _take_leaks(book: Book) -> None:
    heading = book.docked.get_by_role("button", name="Leaks", exact=False).first
    heading.click()
    row(book.docked, "Leaks", "traceback of").click()
    heading.scroll_into_view_if_needed()
    _take_in_both(book, "leaks")
    book.docked.get_by_role("button", name="Leaks", exact=False).first.click()
    book.docked.get_by_role("button", name="History").first.scroll_into_view_if_needed()


def _take_live(book: Book, gate: Gate) -> None:
    book.start(len(CELLS))
    gate.wait(book.page)
    book.says("train more")
    _take_in_both(book, "live")
    gate.open()
    book.ended()


def _take_wide(book: Book) -> None:
    page = book.page
    book.press("Open in main area")
    page.evaluate(
        "() => { window.jupyterapp.commands.execute('application:toggle-right-area'); return 0; }"
    )
    page.evaluate("() => { window.jupyterapp.shell.mode = 'single-document'; return 0; }")
    page.set_viewport_size(WIDE)
    tab = page.locator("#nbmem-tab")
    expect(row(tab, "Cells", "train one epoch")).to_be_visible()
    for theme in THEMES:
        _change(book, theme)
        page.evaluate(DRAWN)
        tab.screenshot(path=IMAGES / f"sidebar-main-{theme}.png")
    _change(book, "light")
    page.evaluate(
        "() => { window.jupyterapp.shell.mode = 'multiple-document';"
        " window.jupyterapp.shell.currentWidget.close(); return 0; }"
    )
    page.set_viewport_size(PAGE)
    book.show()
    _resize(page, 350)


def _resize(page: Page, width: int) -> None:
    page.evaluate(SIDE, width)
    page.wait_for_function(
        "(width) => Math.abs(document.querySelector('#nbmem-panel').clientWidth - width) < 12",
        arg=width,
        timeout=LONG,
    )


def _change(book: Book, theme: str) -> None:
    book.page.evaluate(THEME, THEMES[theme])
    book.page.wait_for_function(THEMED, arg=str(theme == "light").lower(), timeout=LONG)
    expect(book.page.locator("#jupyterlab-splash")).to_have_count(0)


def _take_in_both(book: Book, name: str) -> None:
    """Saves the sidebar, light and dark."""
    for theme in THEMES:
        _change(book, theme)
        _take(book, name, theme)
    _change(book, "light")


def _take(book: Book, name: str, theme: str) -> None:
    book.page.mouse.move(0, 0)
    book.page.evaluate(DRAWN)
    book.sidebar.screenshot(path=IMAGES / f"sidebar-{name}-{theme}.png")


def _take_page(page: Page, name: str) -> None:
    """Saves all of JupyterLab: badges, sidebar, status bar."""
    page.mouse.move(0, 0)
    page.evaluate(DRAWN)
    page.screenshot(path=IMAGES / f"{name}.png")


if __name__ == "__main__":
    main()
