"""The sidebar in Notebook, in the oldest JupyterLab that is promised, without widget packages."""

from __future__ import annotations

import json
import re

import pytest
from lab_server import OLD_PYTHON, serve
from sidebar_page import FEATS, LOAD, Book, expect, row

DRAWERS = {"@jupyter-widgets/jupyterlab-manager": True, "anywidget": True}
"""The extensions of JupyterLab that ipywidgets and anywidget bring."""


class NotebookPage(Book):
    """A notebook that is open in Notebook instead of JupyterLab."""

    def goto(self, path) -> None:
        """Opens a file in Notebook."""
        self.page.goto(f"{self.url}/notebooks/{path.name}")


@pytest.fixture(scope="module")
def old_lab(tmp_path_factory):
    """Returns a server of the oldest JupyterLab and Notebook; its kernels run this Python."""
    if not OLD_PYTHON.exists():
        pytest.skip("there is no .venv-lab42: `make setup-test` makes it")
    with serve(tmp_path_factory.mktemp("old-lab"), str(OLD_PYTHON)) as served:
        yield served


@pytest.fixture
def visit(new_page, request):
    """Returns a function that opens a notebook at a server, in a page of its own."""
    opened: list[Book] = []

    def open_at(lab, make, *cells: str) -> Book:
        url, root = lab
        name = f"{request.node.name[5:30]}-{len(opened)}.ipynb"
        made = make(new_page(), url, root / name, "with-nbmem")
        opened.append(made)
        made.write(cells)
        made.open()
        return made

    yield open_at
    for each in opened:
        each.close()
    assert [] == [error for each in opened for error in each.errors]


def plays_a_cell_and_jumps_to_it(it: Book) -> None:
    it.run(0, 1)
    expect(row(it.docked, "Live tensors", "feats")).to_contain_text("16.0")
    badge = it.page.get_by_role("button", name="[2] make feats")
    expect(badge).to_contain_text("16.0 MiB")
    cell = row(it.docked, "Cells", "make feats")
    cell.get_by_role("button", name="Go to cell [2]").click()
    expect(it.page.locator(".jp-Notebook .jp-Cell").nth(1)).to_have_class(
        re.compile(r"\bnbmem-jumped\b")
    )
    row(it.docked, "Live tensors", "feats").click()
    it.docked.get_by_role("button", name="del feats (16.0 MiB)", exact=True).click()
    expect(it.docked).to_contain_text("Freed 16.0 MiB (")
    assert "None" == it.ask("see()")


def test_notebook_has_the_same_sidebar(lab, visit):
    it = visit(lab, NotebookPage, LOAD, FEATS)
    it.show()
    plays_a_cell_and_jumps_to_it(it)


def test_the_oldest_jupyterlab_has_the_same_sidebar(old_lab, visit):
    it = visit(old_lab, Book, LOAD, FEATS)
    it.show()
    it.says(f"nbmem is not loaded in {it.path.name}")
    plays_a_cell_and_jumps_to_it(it)


def test_the_oldest_notebook_has_the_same_sidebar(old_lab, visit):
    it = visit(old_lab, NotebookPage, LOAD, FEATS)
    it.show()
    plays_a_cell_and_jumps_to_it(it)


@pytest.fixture
def without_widgets(lab):
    """Makes the server send pages without what draws widgets, as one that lacks their packages."""
    home = lab[1].parent
    config = home / "config" / "labconfig" / "page_config.json"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(json.dumps({"disabledExtensions": DRAWERS}))
    yield
    config.unlink()


def test_a_server_without_widget_packages_is_told_what_to_install(lab, visit, without_widgets):
    it = visit(lab, Book, LOAD, FEATS)
    it.show()
    it.press("Load nbmem")
    it.says("run pip install ipywidgets anywidget in the environment that JupyterLab runs in")
    it.run(0, 1)
    badge = it.page.get_by_role("button", name="[2] make feats")
    expect(badge).to_contain_text("16.0 MiB")
    expect(it.sidebar).to_contain_text("make feats")
