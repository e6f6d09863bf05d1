"""A shell with nbmem loaded, and words for what a user does in it."""

from __future__ import annotations

import pytest

import nbmem


class Notebook:
    """Runs cells in a shell the way a front end does, and reads what they showed."""

    def __init__(self, shell):
        self.shell = shell

    def run(self, code, *, store_history=True, silent=False, cell_id=None):
        return self.shell.run_cell(
            code, store_history=store_history, silent=silent, cell_id=cell_id
        )

    @property
    def names(self):
        return self.shell.user_ns

    @property
    def records(self):
        return nbmem.get_history().records()

    @property
    def reports(self):
        """The plain text of every report shown so far."""
        return [
            shown["data"]["text/plain"]
            for shown in self.shell.shown
            if "text/html" in shown["data"]
        ]


@pytest.fixture
def bare(shell):
    """A notebook in which nbmem is not loaded."""
    return Notebook(shell)


@pytest.fixture
def notebook(bare):
    """A notebook in which nbmem is loaded and torch imported."""
    assert bare.run("%load_ext nbmem").success
    assert bare.run("import torch").success
    return bare
