"""Takes docs/images/*.png in a real JupyterLab: examples/quickstart.ipynb, and cells that leak."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import nbformat
from playwright.sync_api import Locator, Page, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
sys.path.insert(0, str(ROOT / "tests" / "ui"))

from conftest import FLAGS  # noqa: E402
from lab_page import LONG, Notebook, expect, row  # noqa: E402
from lab_server import serve  # noqa: E402

SIZE = {"width": 1000, "height": 2400}
SIDE, ABOVE, WIDEST = 10, 3, 724
SIDEBAR = 350
THEMES = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}

LEAKING = (
    "import torch\n%load_ext nbmem",
    "%gpumem panel",
    """%%gpumem
model = torch.nn.Sequential(torch.nn.Linear(1024, 4096), torch.nn.ReLU(), torch.nn.Linear(4096, 16))
def train(size):
    acts = model[:2](torch.randn(size, 1024))
    return model[2](acts) @ torch.ones(17)
train(4096)""",
    "%%gpumem\ntorch.randn(1024, 12 * 1024)",
    """%%gpumem
losses = []
for _ in range(20):
    losses.append(model(torch.randn(256, 1024)).square().mean())""",
    "import gc\ngc.collect()\nsum(float(loss) for loss in losses)",
)
"""Cells that leave what most people meet: an error, a shown tensor, a list of losses."""

THEME = """(theme) => {
  window.jupyterapp.commands.execute('apputils:change-theme', {theme});
  return 0;
}"""

THEMED = "(light) => document.body.dataset.jpThemeLight === light"

WIDTH = "(node, width) => { node.style.width = width ? `${width}px` : ''; }"

INK = "(chart.ink.match(/[\\d.]+/g).slice(0, 3).reduce((a, b) => a + Number(b), 0) / 3)"

DRAWN = """async () => {
  await document.fonts.ready;
  for (let frame = 0; frame < 3; frame++) await new Promise(requestAnimationFrame);
  return 0;
}"""


def main() -> None:
    """Runs the notebooks once and leaves light and dark pictures of the report and the panel."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as home,
        serve(Path(home)) as (url, root),
        open_page() as page,
    ):
        path = root / "quickstart.ipynb"
        shutil.copy(ROOT / "examples" / path.name, path)
        _take_quickstart(_opened(page, url, path), _code(path))
        notebook = Notebook(page, url, root / "leaks.ipynb")
        notebook.write(LEAKING)
        _take_leaks(_opened(page, url, notebook.path))


def _opened(page: Page, url: str, path: Path) -> Notebook:
    notebook = Notebook(page, url, path)
    page.set_viewport_size(SIZE)
    notebook.open()
    page.evaluate(
        "() => { const lab = window.jupyterapp;"
        " if (!lab.shell.leftCollapsed) lab.commands.execute('application:toggle-left-area');"
        " return 0; }"
    )
    return notebook


def _take_quickstart(notebook: Notebook, cells: dict[str, int]) -> None:
    notebook.run(*cells.values())
    panel = cells["%gpumem panel"]
    expect(notebook.panel(panel).locator(".nbmem-chart .bk-Canvas").first).to_be_visible()
    for theme, name in THEMES.items():
        _change_theme(notebook, name, theme == "light")
        _take(notebook, cells["%%gpumem train, keeping every loss"], f"report-{theme}")
        notebook.panel(panel).evaluate(WIDTH, WIDEST - 4)
        notebook.wait_for_charts(f"chart.width > {SIDEBAR} && chart.width < {WIDEST}")
        _take(notebook, panel, f"panel-{theme}")
        _take_narrow(notebook, panel, f"panel-narrow-{theme}")
    notebook.close()


def _take_leaks(notebook: Notebook) -> None:
    """Saves the Leaks section: the traceback's row chosen, and the plan for it."""
    notebook.run(*range(len(LEAKING)))
    panel = notebook.panel(1)
    panel.get_by_role("button", name="Leaks", exact=True).click()
    row(panel, "Leaks", "traceback of").click()
    section = panel.locator(".nbmem-section").filter(
        has=notebook.page.get_by_role("grid", name="Leaks")
    )
    panel.evaluate(WIDTH, WIDEST - 4)
    for theme, name in THEMES.items():
        _change_theme(notebook, name, theme == "light")
        _take_part(notebook, section, f"leaks-{theme}")
    panel.evaluate(WIDTH, SIDEBAR)
    panel.get_by_role("button", name="Free ").first.click()
    expect(panel.get_by_role("button", name="Free nothing")).to_be_visible()
    for theme, name in THEMES.items():
        _change_theme(notebook, name, theme == "light")
        _take_part(notebook, section, f"leaks-plan-{theme}")
    notebook.close()


@contextmanager
def open_page() -> Iterator[Page]:
    """Gives a page of a headless Chromium."""
    path = os.environ.get("NBMEM_CHROMIUM") or shutil.which("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, headless=True, args=FLAGS)
        yield browser.new_page()
        browser.close()


def _code(path: Path) -> dict[str, int]:
    """Returns where each code cell stands, by its first line."""
    cells = nbformat.read(path, as_version=4).cells
    return {
        cell.source.partition("\n")[0]: index
        for index, cell in enumerate(cells)
        if cell.cell_type == "code"
    }


def _change_theme(notebook: Notebook, name: str, light: bool) -> None:
    notebook.page.evaluate(THEME, name)
    notebook.page.wait_for_function(THEMED, arg=str(light).lower(), timeout=LONG)
    notebook.wait_for_charts(f"{INK} {'<' if light else '>'} 140")


def _take_narrow(notebook: Notebook, cell: int, name: str) -> None:
    """Saves the panel as wide as a sidebar, its ledger opened, the tensors grouped by category."""
    panel = notebook.panel(cell)
    panel.evaluate(WIDTH, SIDEBAR)
    panel.get_by_role("button", name="Ledger", exact=True).click()
    expect(panel).to_contain_text("Ledger of")
    panel.get_by_label("Group Live tensors").select_option("by category")
    expect(panel.get_by_role("treegrid").get_by_role("button", name="category")).to_be_visible()
    notebook.wait_for_charts(f"chart.width < {SIDEBAR}")
    _take(notebook, cell, name, SIDEBAR)
    panel.get_by_role("button", name="Ledger", exact=True).click()
    panel.get_by_label("Group Live tensors").select_option("each tensor")
    panel.evaluate(WIDTH, 0)
    notebook.wait_for_charts(f"chart.width > {SIDEBAR}")


def _take(notebook: Notebook, cell: int, name: str, widest: int = WIDEST) -> None:
    """Saves what a cell shows as a picture, as wide as a report or a panel may be."""
    _take_part(notebook, notebook.output(cell).locator(".jp-OutputArea-output").first, name, widest)


def _take_part(notebook: Notebook, part: Locator, name: str, widest: int = WIDEST) -> None:
    part.scroll_into_view_if_needed()
    notebook.page.mouse.move(0, 0)
    notebook.page.evaluate(DRAWN)
    box = part.bounding_box()
    clip = {
        "x": box["x"] - SIDE,
        "y": box["y"] - ABOVE,
        "width": min(box["width"], widest) + 2 * SIDE,
        "height": box["height"] + 2 * ABOVE,
    }
    notebook.page.screenshot(path=IMAGES / f"{name}.png", clip=clip)


if __name__ == "__main__":
    main()
