"""JupyterLab on loopback and a real Chromium, both started and ended by the tests."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from core_page import CorePage
from lab_page import LONG, Notebook
from lab_server import serve
from playwright.sync_api import BrowserContext, Page, sync_playwright
from sidebar_page import Book, Gate

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


CLEAR = """async () => {
  for (const each of [...window.jupyterapp.shell.widgets('main')]) each.dispose();
  await window.jupyterapp.serviceManager.sessions.shutdownAll();
  return 0;
}"""
"""A reloaded page opens what an earlier test had open, with a kernel each."""


class Shelf:
    """Opens notebooks with the sidebar beside them, for one test."""

    def __init__(self, lab, page: Page, name: str) -> None:
        (self.url, self.root), self.page, self.name = lab, page, name
        self.books: list[Book] = []
        self.gates: list[Gate] = []

    def __call__(self, *cells: str, kernel: str = "python3", page: Page | None = None) -> Book:
        """Opens a new notebook; `kernel` is one of `lab_server.KERNELS`."""
        if not self.books:
            self.page.evaluate(CLEAR)
        path = self.root / f"{self.name}-{len(self.books)}.ipynb"
        made = Book(page or self.page, self.url, path, kernel)
        self.books.append(made)
        made.write(cells)
        made.open()
        made.show()
        return made

    def again(self, other: Book, page: Page) -> Book:
        """Opens a notebook a second time, in another page."""
        made = Book(page, self.url, other.path, other.kernel)
        self.books.append(made)
        made.open()
        made.show()
        return made

    def gate(self) -> Gate:
        """Returns a gate for code to wait at; it opens at the end of the test."""
        self.gates.append(Gate(self.root / f"{self.name}.{len(self.gates)}"))
        return self.gates[-1]

    def close(self) -> None:
        """Ends every kernel, and fails where a page had something to complain of."""
        for gate in self.gates:
            gate.open()
        for each in self.books:
            if not each.page.is_closed():
                each.look_for_broken()
                each.close()
        assert [] == [error for each in self.books for error in each.errors]


@pytest.fixture
def book(lab, lab_page, request):
    """Returns a function that opens a new notebook with the sidebar beside it."""
    shelf = Shelf(lab, lab_page, request.node.name[5:40])
    yield shelf
    shelf.close()


@pytest.fixture
def new_page(chromium: BrowserContext):
    """Returns a function that opens a page of its own."""
    pages: list[Page] = []

    def open_page() -> Page:
        pages.append(chromium.new_page())
        return pages[-1]

    yield open_page
    for page in pages:
        page.close()


@pytest.fixture
def core(lab, chromium: BrowserContext):
    """Returns a page that has core widgets only; fails where it had something to complain of."""
    made = CorePage(chromium.new_page(), lab[0])
    yield made
    made.close()
    assert ([], []) == (made.errors, made.elsewhere)
