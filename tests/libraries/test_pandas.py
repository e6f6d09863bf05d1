"""Tensors in the cells of pandas: called as their user would write them."""

import gc
import sys
import weakref
from pathlib import Path

import pandas as pd
import pytest
import torch

import nbmem
from nbmem.errors import NameNotFoundError

sys.path.insert(0, str(Path(__file__).parent))
from told_names import first_names, not_taken_back


def show(notebook, **values):
    notebook.names.update(values)


def of_python(notebook, name):
    """Returns the tensor that Python itself reaches by the name."""
    return eval(name, dict(notebook.names))


def assert_named(notebook, tensor, name):
    assert tensor is of_python(notebook, name)
    assert name == first_names()[tensor.nbytes]
    assert [] == not_taken_back(notebook.names)


ONE, TWO = torch.zeros(1001), torch.ones(1003)


@pytest.fixture(autouse=True)
def fresh():
    global ONE, TWO
    ONE, TWO = torch.zeros(1001), torch.ones(1003)
    yield
    ONE = TWO = None


def frame():
    return pd.DataFrame({"id": [7, 8], "acts": [ONE, TWO], "text": ["a", "b"]})


def test_a_cell_of_a_data_frame_is_called_as_it_is_written(notebook):
    show(notebook, df=frame())
    assert_named(notebook, ONE, "df['acts'][0]")
    assert_named(notebook, TWO, "df['acts'][1]")


def test_a_row_that_was_chosen_keeps_its_label(notebook):
    show(notebook, late=frame()[lambda df: df.id == 8])
    assert_named(notebook, TWO, "late['acts'][1]")


@pytest.mark.parametrize(
    ("index", "name"),
    [
        (["x", "y"], "df['acts']['y']"),
        ([5, 3], "df['acts'][3]"),
        ([0.5, 1.5], "df['acts'][1.5]"),
        (["x", "x"], "df['acts'].iloc[1]"),
        (pd.to_datetime(["2024-01-01", "2024-01-02"]), "df['acts'].iloc[1]"),
        (pd.MultiIndex.from_tuples([("a", 1), ("b", 2)]), "df['acts'].iloc[1]"),
    ],
)
def test_rows_are_called_by_their_labels_where_these_are_unique(notebook, index, name):
    show(notebook, df=frame().set_index(pd.Index(index)))
    assert_named(notebook, TWO, name)


def test_columns_of_one_name_are_called_by_their_places(notebook):
    df = frame()
    df.columns = ["acts", "acts", "text"]
    show(notebook, df=df)
    assert_named(notebook, TWO, "df.iloc[1, 1]")


def test_several_columns_of_tensors_are_told_apart(notebook):
    df = pd.DataFrame({"a": [ONE], 1: [3], "b": [TWO]})
    show(notebook, df=df)
    assert_named(notebook, ONE, "df['a'][0]")
    assert_named(notebook, TWO, "df['b'][0]")


def test_a_series_and_what_is_inside_a_cell_have_names(notebook):
    show(notebook, s=pd.Series([[ONE], {"x": TWO}], index=["p", "q"]))
    assert_named(notebook, ONE, "s['p'][0]")
    assert_named(notebook, TWO, "s['q']['x']")


def test_a_column_that_arrow_keeps_texts_in_is_read(notebook):
    pytest.importorskip("pyarrow", reason="texts are in arrow's memory only where it is there")
    df = pd.DataFrame({"acts": [ONE, TWO]}, index=pd.Index(["p", "q"], dtype="string[pyarrow]"))
    df.columns = df.columns.astype("string[pyarrow]")
    show(notebook, df=df)
    assert_named(notebook, TWO, "df['acts']['q']")


CALLS = []


class Loud:
    """A label whose every method says that it was called."""

    def __hash__(self):
        CALLS.append("hash")
        return 1

    def __eq__(self, other):
        CALLS.append("eq")
        return self is other

    def __repr__(self):
        CALLS.append("repr")
        return "Loud"


def test_no_code_of_a_label_or_a_subclass_runs(notebook):
    class Frame(pd.DataFrame):
        @property
        def _constructor(self):
            CALLS.append("_constructor")
            return Frame

        def __getattr__(self, name):
            CALLS.append(name)
            return super().__getattr__(name)

        def __getitem__(self, key):
            CALLS.append(key)
            return super().__getitem__(key)

    df = Frame({"acts": [ONE, TWO]})
    df.index = pd.Index([Loud(), Loud()], dtype=object)
    show(notebook, df=df)
    CALLS.clear()
    told = first_names()
    assert [] == CALLS
    assert "df['acts'].iloc[1]" == told[TWO.nbytes]


def test_an_attribute_that_pandas_answers_is_told_as_code_that_does_not_run(notebook):
    show(notebook, df=frame())
    with pytest.raises(NameNotFoundError) as told:
        nbmem.find_holders("df.acts[0]")
    assert "`df.acts` is answered by code of DataFrame" in str(told.value)
    assert "ask for `df['acts'][0]`" in str(told.value)
    assert "renamed" not in str(told.value)


def test_a_cell_that_pandas_holds_is_freed_only_with_the_frame(notebook):
    show(notebook, df=frame())
    held = weakref.ref(TWO)
    with pytest.raises(NameNotFoundError):  # it is neither a variable nor what holds a leak
        nbmem.reclaim_memory("df['acts'][1]")
    assert held() is notebook.names["df"]["acts"][1]


def test_a_shown_column_holds_its_cells_and_lets_go_of_them(notebook):
    global ONE, TWO
    show(notebook, df=frame(), pd=pd)
    notebook.run("df['acts'].rename('shown')")
    kept = [weakref.ref(ONE.untyped_storage()), weakref.ref(TWO.untyped_storage())]
    cell = notebook.shell.execution_count - 1
    ONE = TWO = None
    notebook.run("del df")
    gc.collect()
    assert all(ref() is not None for ref in kept)
    leaks = [one for one in nbmem.find_leaks() if one.bytes == 4 * (1001 + 1003)]
    assert not leaks  # each is below the threshold of what is worth telling
    told = {name for one in nbmem.list_storages() for name in one.names}
    assert {f"Out[{cell}][0]", f"Out[{cell}][1]"} <= told
    nbmem.reclaim_memory(f"Out[{cell}]")
    gc.collect()
    assert [None, None] == [ref() for ref in kept]
