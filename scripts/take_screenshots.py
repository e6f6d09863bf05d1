"""Takes docs/images/*.png from examples/quickstart.ipynb in a real JupyterLab."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import nbformat
from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
sys.path.insert(0, str(ROOT / "tests" / "ui"))

from conftest import (  # noqa: E402
    FLAGS,
    free_port,
    lab_command,
    lab_environment,
    wait_for_server,
)
from lab_page import LONG, Notebook, expect  # noqa: E402

SIZE = {"width": 1000, "height": 2400}
SIDE, ABOVE, WIDEST = 10, 3, 724
SIDEBAR = 350
THEMES = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}

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
    """Runs the notebook once and leaves light and dark pictures of the report and the panel."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as home, _lab(Path(home)) as (url, root), _page() as page:
        path = root / "quickstart.ipynb"
        shutil.copy(ROOT / "examples" / path.name, path)
        notebook = Notebook(page, url, path)
        page.set_viewport_size(SIZE)
        notebook.open()
        page.evaluate(
            "() => { window.jupyterapp.commands.execute('application:toggle-left-area');"
            " return 0; }"
        )
        cells = _code(path)
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
        notebook.shut_down()


@contextmanager
def _lab(home: Path) -> Iterator[tuple[str, Path]]:
    root, log, port = home / "notebooks", home / "lab.log", free_port()
    root.mkdir()
    with log.open("wb") as sink:
        process = subprocess.Popen(
            lab_command(port, root), env=lab_environment(home), stdout=sink, stderr=sink
        )
    try:
        wait_for_server(process, f"http://127.0.0.1:{port}", log)
        yield f"http://127.0.0.1:{port}", root
    finally:
        process.terminate()
        process.wait(20)


@contextmanager
def _page() -> Iterator[Page]:
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
    output = notebook.output(cell).locator(".jp-OutputArea-output").first
    output.scroll_into_view_if_needed()
    notebook.page.mouse.move(0, 0)
    notebook.page.evaluate(DRAWN)
    box = output.bounding_box()
    clip = {
        "x": box["x"] - SIDE,
        "y": box["y"] - ABOVE,
        "width": min(box["width"], widest) + 2 * SIDE,
        "height": box["height"] + 2 * ABOVE,
    }
    notebook.page.screenshot(path=IMAGES / f"{name}.png", clip=clip)


if __name__ == "__main__":
    main()
