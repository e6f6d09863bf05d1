"""JupyterLab on loopback and a real Chromium, both started and ended by the tests."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from lab_page import LONG, Notebook
from lab_server import serve
from playwright.sync_api import BrowserContext, sync_playwright

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def pytest_collection_modifyitems(items):
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.ui)


@pytest.fixture(scope="session")
def lab(tmp_path_factory):
    """Returns the address of a JupyterLab and the folder it serves."""
    with serve(tmp_path_factory.mktemp("lab")) as served:
        yield served


@pytest.fixture(scope="session")
def chromium():
    """Returns a headless Chromium: `NBMEM_CHROMIUM`, the system's, or Playwright's own."""
    path = os.environ.get("NBMEM_CHROMIUM") or shutil.which("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, headless=True, args=FLAGS)
        yield browser.new_context()  # one for all: JupyterLab's scripts are read once
        browser.close()


@pytest.fixture(scope="session")
def lab_page(lab, chromium):
    """Returns a page in which JupyterLab is open."""
    page = chromium.new_page()
    page.goto(f"{lab[0]}/lab?reset")
    page.wait_for_function("() => Boolean(window.jupyterapp)", timeout=LONG)
    page.evaluate("async () => { await window.jupyterapp.restored; return 0; }")
    return page


@pytest.fixture
def notebook(lab, chromium: BrowserContext, lab_page, request):
    """Returns a function that opens a new notebook with the given cells in JupyterLab.

    With `own_page` in a page of its own, on which no widget of ours has been.
    """
    url, root = lab
    opened: list[Notebook] = []

    def open_notebook(*cells: str, own_page: bool = False) -> Notebook:
        name = f"{request.node.name[:40]}-{len(opened)}.ipynb"
        notebook = Notebook(chromium.new_page() if own_page else lab_page, url, root / name)
        opened.append(notebook)
        notebook.write(cells)
        notebook.open()
        return notebook

    yield open_notebook
    for each in opened:
        each.close()
        if each.page is not lab_page:
            each.page.close()
