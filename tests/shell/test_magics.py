"""`%gpumem` and its subcommands, and the settings."""

from __future__ import annotations

import json
import re

import pytest

import nbmem
from nbmem.errors import HistoryFileError, NbmemWarning
from nbmem.units import format_bytes


def test_bare_magic_tells_each_device_and_what_the_figures_count(notebook):
    # So much that what other tests left in this process does not change the three digits.
    notebook.run("x = torch.empty(400 * 256, 1024)")
    notebook.run("%gpumem")
    told = notebook.reports[-1]
    assert "400 MiB  in torch's CPU storages" in told
    assert "resident memory of this process (RSS)" in told


def test_history_lists_cells_in_the_order_they_ran(notebook):
    notebook.run("%%gpumem -q first\nx = torch.zeros(256, 1024)")
    notebook.run("%%gpumem -q second\ndel x")
    notebook.run("%gpumem history")
    lines = notebook.reports[-1].splitlines()
    first, second = (next(line for line in lines if word in line) for word in ("first", "second"))
    assert lines.index(first) < lines.index(second)
    assert "+1" in first
    assert "−1" in second


def test_empty_history_says_what_to_do(notebook):
    notebook.run("%gpumem history")
    assert "put %%gpumem on a cell's first line" in notebook.reports[-1]


def test_tensors_lists_the_largest_and_sums_the_rest(notebook):
    notebook.run("big = torch.zeros(8, 1024, 1024); little = torch.zeros(256)")
    notebook.run("%gpumem tensors 1")
    told = notebook.reports[-1]
    assert "big" in told
    assert "little" not in told
    others = sum(storage.bytes for storage in nbmem.list_storages()) - 32 * 1024**2
    shown = re.search(r"smaller storages? of (.+) in all (?:is|are) not shown", told)
    assert format_bytes(others) == shown[1]


def test_panel_in_a_terminal_is_the_same_in_text(notebook, capsys):
    notebook.run("%%gpumem -q made\nx = torch.zeros(256, 1024)")
    notebook.run("%gpumem panel")
    assert "The panel needs a notebook" in capsys.readouterr().out
    history, tensors = notebook.reports[-2:]
    assert "made" in history
    assert "Live tensors" in tensors


def test_errors_says_when_there_were_none(notebook, capsys):
    notebook.run("%gpumem errors")
    assert "Nothing broke inside nbmem." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (
            "pannel",
            "%gpumem: no 'pannel', only on, off, history, tensors, ledger, leaks, holders, reclaim,"
            " park, unpark, panel, errors; for example: %gpumem panel",
        ),
        (
            "on everything",
            "%gpumem on: unrecognized arguments: everything; for example: %gpumem on",
        ),
        ("tensors 0", "%gpumem tensors: '0' is no number of rows; for example: %gpumem tensors"),
        ("tensors --rows many", "argument --rows: 'many' is no number of rows; for example:"),
        ("tensors --by colour", "argument --by: 'colour' is none of category, module, cell, name,"),
        ("tensors --sort colour", "argument --sort: 'colour' is none of size, name, cell,"),
        ("tensors --rows", "argument --rows: expected one argument; for example:"),
        ("tensors size>big", "'big' is no size, as 4096, 64KiB, 1.5GiB or 2MB are; for example:"),
        ("tensors kind=user", "no 'kind' to filter by, only name, category, module, cell, size,"),
        ("tensors --where --by cell", "it goes without --by and --sort; for example:"),
        ("tensors --by cell --sort views", "groups are sorted by size or name, not by views;"),
        ("tensors --by module --sort name", "--by module goes without --sort; for example:"),
        ("tensors --colour", "unrecognized arguments: --colour; for example:"),
        ("ledger cuda:9", "there is no device 'cuda:9' here: use one of cpu,"),
        ("ledger cuda:9", "; for example: %gpumem ledger cpu"),
        ("ledger cpu cpu", "unrecognized arguments: cpu; for example: %gpumem ledger cpu"),
    ],
)
def test_wrong_use_is_one_line_with_an_example(notebook, capsys, line, problem):
    assert not notebook.run(f"%gpumem {line}").success
    told = capsys.readouterr()
    (message,) = [text for text in (told.out + told.err).splitlines() if "UsageError" in text]
    assert problem in message


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("on", "Records every cell from now on"),
        ("off", "Records only cells that begin with %%gpumem."),
        ("history", "Shows the table of recorded cells."),
        ("tensors", "For example: %gpumem tensors conv size>1MiB --by module"),
        ("ledger", "Shows the sums of a device that close"),
        ("panel", "Shows chart, tables and buttons, below this cell."),
        ("errors", "Shows what broke inside nbmem."),
    ],
)
def test_each_subcommand_explains_itself_and_does_nothing_else(notebook, capsys, command, said):
    assert notebook.run(f"%gpumem {command} --help").success
    told = capsys.readouterr().out
    assert said in told
    assert f"usage: %gpumem {command} [-h]" in told
    assert [] == notebook.reports


@pytest.mark.parametrize("asked", ["-h", "--help", "help"])
def test_the_magic_explains_itself(notebook, capsys, asked):
    assert notebook.run(f"%gpumem {asked}").success
    told = capsys.readouterr().out
    assert "%gpumem tensors --where" in told
    assert "`%gpumem ledger`" in told


def test_tensors_are_filtered_and_sorted(notebook):
    notebook.run("first = torch.zeros(300); second = torch.zeros(600); other = torch.zeros(9000)")
    notebook.run("%gpumem tensors --sort name size<3KB name=s category=user dtype=float32")
    lines = [line.split() for line in notebook.reports[-1].splitlines()]
    assert ["first", "second"] == [line[2] for line in lines if line[1:2] == ["U"]]


def test_tensors_by_module_add_up_to_their_model(notebook):
    notebook.run("net = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 32))")
    notebook.run("%gpumem tensors --by module category=parameter")
    told = notebook.reports[-1]
    # 64·64 + 64 and 64·32 + 32 float32 weights: 16,640 B and 8,320 B
    assert "Live tensors by module · 24.4 KiB in 4 storages" in told


def test_tensors_by_category_and_by_name(notebook):
    notebook.run("x = torch.zeros(256, 1024); made = [torch.zeros(1024) for _ in range(4)]")
    for by, expected in (("category", "user"), ("name", "made")):
        notebook.run(f"%gpumem tensors --by {by}")
        told = notebook.reports[-1]
        assert f"Live tensors by {by}" in told
        assert expected in told


def test_where_tells_what_is_on_which_device(notebook):
    notebook.run("x = torch.zeros(256, 1024)")
    notebook.run("%gpumem tensors --where name=x")
    lines = notebook.reports[-1].splitlines()
    assert "Where tensors are · 1.00 MiB in 1 storage that match “name=x”" in lines[0]
    assert ["module", "cpu"] in [line.split() for line in lines]


def test_a_filter_that_finds_nothing_says_so(notebook):
    notebook.run("x = torch.zeros(256, 1024)")
    notebook.run("%gpumem tensors nowhere_at_all")
    assert "None matches “nowhere_at_all”: alive are " in notebook.reports[-1]


def test_ledger_shows_sums_whose_bytes_can_be_added_up(notebook):
    notebook.run("x = torch.zeros(256, 1024)")
    notebook.run("%gpumem ledger cpu")
    _, title, told = notebook.reports[-1].partition("Ledger of cpu")  # that of a GPU comes before
    assert "Ledger of cpu" == title
    sizes = re.findall(r"^  . .*?([\d,]+)$", told.partition("What this process")[0], re.MULTILINE)
    *lines, total = [int(size.replace(",", "")) for size in sizes]
    assert total == sum(lines)
    assert total >= 1024 * 1024
    assert "closes to the byte" in told


def test_ledger_of_the_host_says_whose_ledger_it_is_part_of(notebook, capsys):
    assert notebook.run("%gpumem ledger host").success
    assert "Host memory is part of cpu's ledger:" in capsys.readouterr().out
    assert "Ledger of cpu" in notebook.reports[-1]
    assert notebook.run("%gpumem ledger cpu").success
    assert "Host memory" not in capsys.readouterr().out


def test_units_setting_changes_the_report(notebook):
    notebook.run("%config NbMem.units = 'SI'")
    notebook.run("%%gpumem\nx = torch.zeros(250_000)")
    assert "1.00 MB" in notebook.reports[-1]


def test_setting_that_makes_no_sense_is_refused_and_nothing_changes(notebook, caplog):
    notebook.run("%config NbMem.units = 'furlongs'")
    assert "expected any of ['IEC', 'SI'], not the str 'furlongs'" in caplog.text
    assert notebook.run("%%gpumem\nx = torch.zeros(256, 1024)").success
    assert "1.00 MiB" in notebook.reports[-1]


def test_a_budget_that_is_no_number_is_refused(notebook, caplog):
    notebook.run("%config NbMem.name_budget = float('nan')")
    assert "name_budget is a number of seconds, not nan" in caplog.text
    assert notebook.run("%%gpumem -o record\nx = torch.zeros(25)").success
    assert ["x"] == [s.names[0] for s in notebook.names["record"].created]


def test_refused_setting_does_not_stand_in_the_way_of_loading_again(notebook):
    notebook.run("%config NbMem.rows = -5")
    notebook.run("%config NbMem.units = 'SI'")
    with pytest.warns(NbmemWarning, match=r"NbMem\.rows stays 6"):
        notebook.run("%reload_ext nbmem")
    assert notebook.run("%%gpumem\nx = torch.zeros(250_000)").success
    assert "1.00 MB" in notebook.reports[-1]


def test_subcommand_that_breaks_inside_is_one_line(notebook, monkeypatch, capsys):
    def broken(*args, **kwargs):
        raise LookupError("no names today")

    monkeypatch.setattr("nbmem.session.core.take_inventory", broken)
    assert notebook.run("%gpumem tensors").success
    assert (
        "nbmem could not run %gpumem tensors: LookupError: no names today"
        " (`%gpumem errors` shows where)"
    ) in capsys.readouterr().out


def test_history_limit_drops_the_oldest(notebook):
    notebook.run("%config NbMem.history_limit = 2")
    for number in range(4):
        notebook.run(f"%%gpumem -q cell {number}\nx = 1")
    assert ["cell 2", "cell 3"] == [record.label for record in notebook.records]


def test_autosave_setting_writes_each_cell(notebook, tmp_path):
    path = tmp_path / "saved.jsonl"
    notebook.run(f"%config NbMem.autosave = {str(path)!r}")
    notebook.run("%%gpumem -q one\nx = torch.zeros(25)")
    notebook.run("%%gpumem -q two\ny = torch.zeros(50)")
    labels = [
        json.loads(line).get("record", {}).get("label") for line in path.read_text().splitlines()
    ]
    assert ["one", "two"] == [label for label in labels if label]


def test_autosave_that_can_not_write_is_told_and_fails_no_cell(notebook, tmp_path, capsys):
    with pytest.warns(NbmemWarning, match=r"not autosaved: .*\(there is no folder .*missing\)"):
        notebook.run(f"%config NbMem.autosave = {str(tmp_path / 'missing' / 'saved.jsonl')!r}")
    assert notebook.run("%%gpumem -q\nx = torch.zeros(25)").success
    assert 1 == len(notebook.records)
    capsys.readouterr()
    notebook.run("%gpumem history")
    assert "missing" in capsys.readouterr().out


def test_broken_history_file_is_refused_and_nothing_is_lost(notebook, tmp_path):
    notebook.run("%%gpumem -q kept\nx = 1")
    path = tmp_path / "broken.json"
    path.write_text('{"schema": 1, "records": [{')
    with pytest.raises(HistoryFileError):
        nbmem.get_history().load(path)
    assert ["kept"] == [record.label for record in notebook.records]


def test_history_saved_by_a_newer_version_is_refused_with_a_sentence(notebook, tmp_path):
    notebook.run("%%gpumem -q kept\nx = 1")
    path = tmp_path / "history.json"
    nbmem.get_history().save(path)
    saved = json.loads(path.read_text())
    saved["schema"] = 999
    path.write_text(json.dumps(saved))
    with pytest.raises(HistoryFileError, match="999"):
        nbmem.get_history().load(path)
    assert 1 == len(notebook.records)


def test_history_makes_a_data_frame_of_bytes(notebook):
    notebook.run("%%gpumem -q made\nx = torch.zeros(25)")
    frame = nbmem.get_history().to_pandas()
    row = frame[(frame["label"] == "made") & (frame["device"] == "cpu")].iloc[0]
    assert 100 == row["delta"]
    assert row["peak"] == row["before"] + 100
