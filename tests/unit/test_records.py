"""Records to JSON and back: later fields are passed over, wrong ones are named."""

import json

import pytest
from samples import SAMPLES, TRAINED

from nbmem.records import (
    SCHEMA,
    CellRecord,
    DeviceReading,
    Difference,
    Inventory,
    Note,
    ReclaimReport,
    from_json,
    to_json,
)


@pytest.mark.parametrize("record", SAMPLES.values(), ids=SAMPLES)
def test_a_cell_record_survives_json(record):
    assert record == from_json(CellRecord, json.loads(json.dumps(to_json(record))))


@pytest.mark.parametrize(
    "record",
    [
        Inventory(TRAINED.created, 1.5, (Note("names", "budget", "incomplete"),)),
        DeviceReading("cpu", "cpu", None, 1, 2, None, None, None, None, 3),
        ReclaimReport("del", ("x",), (), ("y: changed",), 5, 3, "allocated on cuda:0"),
    ],
    ids=lambda record: type(record).__name__,
)
def test_other_records_survive_json(record):
    assert record == from_json(type(record), json.loads(json.dumps(to_json(record))))


def test_a_field_of_a_later_version_is_passed_over():
    assert Note("a", "b", "c") == from_json(Note, to_json(Note("a", "b", "c")) | {"colour": "red"})


def test_a_record_without_the_fields_that_joined_later_still_opens():
    data = to_json(TRAINED)
    for item in data["created"]:
        del item["stands_for"]
    assert TRAINED == from_json(CellRecord, data)


@pytest.mark.parametrize(
    ("named", "change"),
    [
        ("serial", {"serial": "7"}),
        ("serial", {"serial": True}),
        ("seconds", {"seconds": None}),
        ("seconds", {"seconds": 10**400}),
        ("devices", {"devices": []}),
        ("created", {"created": {}}),
        ("StorageRecord", {"created": [3]}),
    ],
)
def test_a_field_of_another_type_is_named(named, change):
    with pytest.raises(ValueError, match=named):
        from_json(CellRecord, to_json(TRAINED) | change)


def test_a_missing_field_is_named():
    data = to_json(TRAINED)
    del data["status"]
    with pytest.raises(ValueError, match="status"):
        from_json(CellRecord, data)


def test_the_schema_number_is_the_one_of_files_in_the_field():
    assert 3 == SCHEMA


def test_what_came_back_is_before_less_after_and_unknown_where_either_is():
    report = ReclaimReport("del", (), (), (), 5, 3, "")
    assert (2, None) == (report.freed, ReclaimReport("del", (), (), (), None, 3, "").freed)
    assert (-2, None) == (Difference(5, 3).change, Difference(5, None).change)
