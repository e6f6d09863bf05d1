"""Which cell runs, and who is told that one begins."""

from __future__ import annotations

from nbmem.session import current_session

ASK = "from nbmem.session import current_session\nseen = current_session().watcher.running"
INSIDE = (
    "from nbmem.session import current_session\n"
    "get_ipython().run_cell('inner = current_session().watcher.running')\n"
    "outer = current_session().watcher.running"
)


def test_a_cell_is_known_by_its_number_while_it_runs(notebook):
    assert current_session().watcher.running is None
    number = notebook.shell.execution_count
    notebook.run(ASK)
    assert f"cell [{number}]" == notebook.names["seen"]
    assert current_session().watcher.running is None


def test_a_cell_that_is_not_stored_has_no_number(notebook):
    notebook.run(ASK, store_history=False)
    assert "a cell" == notebook.names["seen"]


def test_of_a_cell_inside_another_the_outer_one_is_told(notebook):
    number = notebook.shell.execution_count
    notebook.run(INSIDE)
    assert f"cell [{number}]" == notebook.names["inner"] == notebook.names["outer"]


def test_a_cell_that_fails_runs_no_more(notebook):
    notebook.run("1 / 0")
    notebook.run("this is no Python")
    assert current_session().watcher.running is None


def test_who_listens_is_told_once_a_cell_and_no_more_after_the_end(notebook):
    told = []
    end = current_session().watcher.subscribe(lambda: told.append(1))
    notebook.run("x = 1")
    notebook.run(INSIDE)
    assert 2 == len(told)
    end()
    end()
    notebook.run("x = 1")
    assert 2 == len(told)


def test_an_error_in_who_listens_does_not_reach_the_cell(notebook):
    end = current_session().watcher.subscribe(lambda: 1 / 0)
    assert notebook.run("x = 5").success
    assert 5 == notebook.names["x"]
    assert current_session().watcher.running is None
    assert "ZeroDivisionError" in current_session().troubles.all()[-1].summary
    end()
