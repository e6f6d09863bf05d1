"""The history: bounded, small, saved and loaded without losing anything."""

import json
import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import GIB, MIB, SAMPLES, STEPS, TRAINED, cell, delta, storage

from nbmem.errors import HistoryFileError, MissingPackageError, NameNotFoundError
from nbmem.history import History
from nbmem.records import (
    CATEGORIES,
    CellRecord,
    Copies,
    RunTrend,
    StepSummary,
    from_json,
    to_json,
)


@pytest.fixture(scope="module", autouse=True)
def hypothesis_has_run():
    """Its own gc callback stays for good: it must be there before leftovers are looked for."""
    given(st.none())(lambda _: None)()


def filled(*serials, **more):
    history = History(**more)
    for serial in serials:
        history.put(cell(serial, count=serial))
    return history


def serials(history):
    return [record.serial for record in history]


def test_the_oldest_cells_go_when_there_are_too_many():
    history = filled(1, 2, 3, 4, limit=3)
    assert ([2, 3, 4], 3, None) == (serials(history), len(history), history.get(1))
    history.set_limit(2)
    assert [3, 4] == serials(history)


def test_a_block_that_runs_again_takes_the_place_of_its_record():
    history = filled(1, 2)
    history.put(cell(1, label="again"))
    assert [(1, "again"), (2, None)] == [(r.serial, r.label) for r in history]
    assert 2 == history.last().serial


def test_an_empty_history_has_no_last_cell():
    assert (None, (), 0) == (History().last(), History().records(), len(History()))


sizes = st.lists(
    st.tuples(
        st.integers(0, 2**40), st.sampled_from(CATEGORIES), st.sampled_from(["cpu", "cuda:0"])
    ),
    max_size=120,
)


@given(sizes)
def test_a_kept_record_is_small_and_its_sums_are_those_of_the_cell(made):
    created = [storage(n, size, kind, f"x{n}", device=d) for n, (size, kind, d) in enumerate(made)]
    history = History()
    history.put(cell(1, created=created))
    kept = history.last().created

    expected = {}
    for size, kind, device in made:
        count, total = expected.get((device, kind), (0, 0))
        expected[device, kind] = (count + 1, total + size)
    found = {}
    for s in kept:
        count, total = found.get((s.device, s.category), (0, 0))
        found[s.device, s.category] = (count + s.stands_for, total + s.bytes)
    assert expected == found
    assert len(kept) <= 24 + 2 * len(CATEGORIES)


def test_a_name_of_ten_thousand_characters_is_cut_in_its_middle():
    history = History()
    history.put(
        cell(1, first_line="a" * 5000 + "z", created=[storage(1, 8, "user", "b" * 9999 + "y")])
    )
    (kept,) = history.last().created
    assert (240, "y", 240, "z") == (
        len(kept.names[0]),
        kept.names[0][-1],
        len(history.last().first_line),
        history.last().first_line[-1],
    )


def rerun(serial, *copies, **more):
    """A third run that grew by 1 KiB a run on the card."""
    trend = RunTrend(
        runs=3,
        older={"cuda:0": 2048},
        growth_per_run={"cuda:0": 1024},
        kept={"cuda:0": (1024, 2048, 3072)},
        by_name=copies,
    )
    alive = {"cuda:0": {"parameter": 4096, "optimizer state": 8192}}
    return cell(serial, delta(), trend=trend, alive=alive, **more)


def test_a_kept_trend_tells_the_largest_copies_and_keeps_its_sums():
    history = History()
    copies = [Copies(f"x{n}" + "y" * 999, "cuda:0", 0, 999 - n, 0, 1) for n in range(50)]
    history.put(rerun(1, *copies))
    kept = history.last()
    assert ([999, 998, 997], 8) == (
        [c.older for c in kept.trend.by_name[:3]],
        len(kept.trend.by_name),
    )
    assert 240 == max(len(c.what) for c in kept.trend.by_name)
    assert {"cuda:0": (1024, 2048, 3072)} == kept.trend.kept
    assert {"cuda:0": {"parameter": 4096, "optimizer state": 8192}} == kept.alive


def test_what_a_trend_says_survives_a_file(tmp_path):
    copies = Copies("loss", "cuda:0", 1024, 2048, 1, 2, ("losses[0]",), "losses.append(loss)")
    history = History()
    history.put(rerun(1, copies))
    history.save(tmp_path / "h.json")
    fresh = History()
    fresh.load(tmp_path / "h.json")
    assert (history.last().trend, history.last().alive) == (fresh.last().trend, fresh.last().alive)
    assert (copies,) == fresh.last().trend.by_name


def test_a_file_from_before_there_were_trends_opens(tmp_path):
    path = tmp_path / "h.json"
    filled(1).save(path)
    data = json.loads(path.read_text())
    for field in ("trend", "alive"):
        del data["records"][0][field]
    path.write_text(json.dumps(data))
    fresh = History()
    fresh.load(path)
    assert (None, {}) == (fresh.last().trend, fresh.last().alive)


text = st.text(st.characters(), max_size=30)
figure = st.none() | st.integers(-(2**62), 2**62)
storages = st.builds(
    storage,
    st.integers(1, 2**40),
    st.integers(0, 2**50),
    st.sampled_from(CATEGORIES),
    text,
    text,
    dtype=text,
    shape=st.lists(st.integers(0, 2**40), max_size=4).map(tuple),
)
deltas = st.builds(delta, text, before=figure, after=figure, peak=figure, capacity=figure)
records = st.builds(
    lambda serial, deltas, label, line, created, steps: cell(
        serial, *deltas, label=label, first_line=line, created=created, steps=steps
    ),
    st.integers(1, 2**31),
    st.lists(deltas, max_size=3),
    st.none() | text,
    text,
    st.lists(storages, max_size=4),
    st.none()
    | st.builds(
        StepSummary,
        st.integers(1, 9999),
        st.floats(0, 1e6),
        st.dictionaries(text, st.integers(0, 2**40)),
        st.just({}),
        st.just({}),
    ),
)


@given(records)
def test_any_record_survives_json(record):
    assert record == from_json(CellRecord, json.loads(json.dumps(to_json(record))))


@pytest.mark.parametrize("record", SAMPLES.values(), ids=SAMPLES)
def test_a_saved_history_loads_as_the_past(tmp_path, record):
    history = History()
    history.put(record)
    history.save(tmp_path / "h.json")
    fresh = filled(1, 2)
    assert 1 == fresh.load(tmp_path / "h.json")
    assert [-1, 1, 2] == serials(fresh)
    assert replace(history.last(), serial=0, created=()) == replace(
        fresh.get(-1), serial=0, created=()
    )


def test_what_a_cell_made_still_points_to_that_cell_after_loading(tmp_path):
    history = filled(1, 2)
    history.put(cell(3, parent=1, created=[storage(1, 8, "user", "x", created_in=2)]))
    history.save(tmp_path / "h.json")
    fresh = filled(9)
    fresh.load(tmp_path / "h.json")
    past = fresh.get(-1)
    assert [-3, -2, -1, 9] == serials(fresh)
    assert (-3, -2) == (past.parent, past.created[0].created_in)


def test_loading_twice_adds_nothing(tmp_path):
    history = filled(1, 2)
    history.save(tmp_path / "h.json")
    assert 0 == history.load(tmp_path / "h.json")
    fresh = History()
    assert (2, 0) == (fresh.load(tmp_path / "h.json"), fresh.load(tmp_path / "h.json"))


def test_loading_keeps_to_the_limit_and_never_drops_the_present(tmp_path):
    filled(1, 2, 3).save(tmp_path / "h.json")
    present = History(limit=2)
    present.put(cell(1, count=99, first_line="now"))
    assert 1 == present.load(tmp_path / "h.json")
    assert [3, 99] == [record.execution_count for record in present]


def test_home_is_understood(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    filled(1).save("~/h.json")
    assert 1 == History().load("~/h.json")


HEAD = '{"format": "nbmem history", "schema": '


@pytest.mark.parametrize(
    ("sentence", "content"),
    [
        ("is not a history that nbmem saved", b""),
        ("is not a history that nbmem saved", b"hello"),
        ("is not a history that nbmem saved", b"[1, 2]"),
        ("is not a history that nbmem saved", b'{"a": 1}'),
        ("it is not text", b"\xff\xfe\x00"),
        (
            "saved by a newer nbmem (schema 99, this one reads up to 3)",
            f'{HEAD}99, "records": []}}',
        ),
        ("its schema number is missing", b'{"format": "nbmem history"}'),
        ("it has no list of records", f"{HEAD}1}}"),
        ("record 1: `serial`", f'{HEAD}1, "records": [{{"serial": "x"}}]}}'),
        ("line 2 is no record", f'{HEAD}1, "rec\nhello\n'),
        ("it ends in the middle", f'{HEAD}1, "records": [{{"ser'),
        ("is not a history that nbmem saved", b"[" * 100_000),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_and_nothing_is_lost(tmp_path, sentence, content):
    path = tmp_path / "h.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    history = filled(1, 2)
    with pytest.raises(HistoryFileError) as refused:
        history.load(path)
    assert sentence in str(refused.value)
    assert [1, 2] == serials(history)


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    for path, sentence in ((tmp_path / "no.json", "is not there"), (tmp_path, "can't be read")):
        with pytest.raises(HistoryFileError, match=sentence):
            History().load(path)


def test_a_save_that_fails_leaves_the_older_file_whole(tmp_path, monkeypatch):
    path = tmp_path / "h.json"
    filled(1).save(path)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(HistoryFileError, match=r"\(No space left on device\)"):
        filled(1, 2).save(path)
    monkeypatch.undo()
    assert (1, ["h.json"]) == (History().load(path), [p.name for p in tmp_path.iterdir()])


# Autosave.


def test_an_autosaved_history_outlives_its_kernel(tmp_path):
    path = tmp_path / "h.jsonl"
    history = History()
    history.autosave_to(path)
    for serial in (1, 2):
        history.put(cell(serial, count=serial))
    fresh = History()
    assert (2, [-2, -1]) == (fresh.load(path), serials(fresh))
    history.autosave_to(None)


def test_a_line_cut_off_by_a_kill_costs_only_itself(tmp_path):
    path = tmp_path / "h.jsonl"
    for serial in (1, 2):  # two kernels, one after the other
        history = History()
        history.autosave_to(path)
        history.put(cell(serial, count=serial))
        history.put(cell(serial + 10, count=serial + 10))
        history.autosave_to(None)
        path.write_bytes(path.read_bytes()[:-40])
    fresh = History()
    assert 2 == fresh.load(path)
    assert [1, 2] == [record.execution_count for record in fresh]
    assert ["2 lines were cut off where the process was killed, and left out."] == [
        note.sentence for note in fresh.notes
    ]


def test_a_loop_of_ten_thousand_steps_is_autosaved_in_a_few_lines(tmp_path):
    path = tmp_path / "h.jsonl"
    history = History()
    history.autosave_to(path)
    for count in range(1, 10_001):
        history.put(replace(STEPS, steps=replace(STEPS.steps, count=count)))
    history.autosave_to(None)
    assert 15 == len(path.read_text().splitlines())
    fresh = History()
    fresh.load(path)
    assert [10_000] == [record.steps.count for record in fresh]


def test_an_autosaved_file_that_grew_large_is_put_aside_once(tmp_path, monkeypatch):
    path = tmp_path / "h.jsonl"
    history = History()
    history.autosave_to(path)
    history.put(cell(1, count=1))
    line = path.stat().st_size
    monkeypatch.setattr("nbmem.history.autosave.LARGEST", 2 * line)
    for count in range(2, 6):
        history.put(cell(count, count=count))
    history.autosave_to(None)
    kept = {}
    for name in ("h.jsonl", "h.jsonl.1"):
        fresh = History()
        fresh.load(tmp_path / name)
        kept[name] = [record.execution_count for record in fresh]
    assert {"h.jsonl": [5], "h.jsonl.1": [3, 4]} == kept
    assert ["h.jsonl", "h.jsonl.1"] == sorted(p.name for p in tmp_path.iterdir())


def test_an_autosave_that_fails_never_reaches_the_cell_and_says_why(tmp_path):
    history = History()
    history.autosave_to(tmp_path / "missing" / "h.jsonl")
    history.put(cell(1))
    (note,) = history.notes
    assert ("autosave", "not_written", 1) == (note.field, note.code, len(history))
    assert "No such file or directory" in note.sentence
    history.autosave_to(None)
    assert () == history.notes


# Tables and comparisons.


def test_a_data_frame_has_a_row_for_each_record_and_device():
    history = History()
    history.put(TRAINED)
    history.put(cell(9, delta(before=None), delta("host", before=5, after=7, unattributed=None)))
    frame = history.to_pandas()
    assert [(7, "cuda:0"), (9, "cuda:0"), (9, "host")] == list(
        zip(frame["serial"], frame["device"], strict=True)
    )
    first, _, host = (frame.iloc[n] for n in range(3))
    assert (300 * MIB, 300 * MIB, 64 * MIB) == (first["delta"], first["created"], first["freed"])
    assert 2 == host["delta"]
    assert [False, True, False] == frame["before"].isna().tolist()
    assert [False, False, True] == frame["created"].isna().tolist()
    assert "Int64" == str(frame["peak"].dtype)


def test_a_data_frame_tells_what_was_alive_by_category_and_how_a_cell_grows():
    history = History()
    history.put(cell(1, delta()))
    history.put(rerun(2))
    frame = history.to_pandas()
    names = ["older", "growth_per_run", "alive_parameter", "alive_optimizer_state", "alive_user"]
    # unknown where nothing was listed, 0 where there is none of a category
    assert frame.iloc[0][names].isna().all()
    assert [2048, 1024, 4096, 8192, 0] == frame.iloc[1][names].tolist()


def test_comparing_two_runs_tells_what_is_alive_by_category():
    history = History()
    history.put(rerun(1))
    history.put(cell(2, delta(), alive={"cuda:0": {"parameter": 4096, "gradient": 100}}))
    history.put(cell(3, delta()))
    alive = history.compare(1, 2).devices["cuda:0"].alive
    assert {"parameter": 0, "optimizer state": -8192, "gradient": 100} == {
        kind: difference.change for kind, difference in alive.items()
    }
    assert {} == history.compare(2, 3).devices["cuda:0"].alive


def test_without_pandas_the_line_that_installs_it_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingPackageError, match="pip install pandas"):
        History().to_pandas()


def test_two_runs_of_a_cell_are_compared_in_bytes():
    history = History()
    history.put(cell(1, delta(after=GIB, peak=GIB), created=[storage(1, GIB, "user", "x")]))
    history.put(
        cell(
            2,
            delta(before=GIB, after=3 * GIB, peak=4 * GIB),
            delta("cpu", peak=1),
            created=[storage(2, 2 * GIB, "gradient", "w.grad")],
        )
    )
    told = history.compare(1, 2)
    gpu = told.devices["cuda:0"]
    assert (3 * GIB, GIB) == (gpu.peak.change, gpu.delta.change)
    assert {"user": -GIB, "gradient": 2 * GIB} == {k: d.change for k, d in gpu.created.items()}
    assert (None, None) == (told.devices["cpu"].peak.first, told.devices["cpu"].peak.change)
    assert ["Only one of both records measured cpu."] == [note.sentence for note in told.notes]


def test_comparing_a_cell_that_is_gone_says_so():
    with pytest.raises(NameNotFoundError, match="No record has the serial 5"):
        filled(1).compare(1, 5)
