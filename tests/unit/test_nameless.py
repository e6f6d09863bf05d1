"""What is said of a storage that no name leads to."""

import re
from dataclasses import replace

import pytest
from samples import storage

from nbmem.records import Inventory
from nbmem.render import tensors_bundle

PLAIN = replace(
    storage(1, 4096, "unknown"), created_by=None, created_in=None, visible=True, views=1
)


@pytest.mark.parametrize(
    ("words", "fields"),
    [
        ("no name", {}),
        ("no name, held outside Python", {"visible": False}),
        ("no name, made by line 3 of [7]", {"line": 3, "created_by": 7}),
        ("no name, saved by MulBackward0.self", {"saved_by": "MulBackward0.self"}),
        (
            "no name, saved by MulBackward0.self · model.fc",
            {"saved_by": "MulBackward0.self", "module": "model.fc", "line": 3, "created_by": 7},
        ),
    ],
)
def test_as_much_is_said_as_is_known(words, fields):
    inventory = Inventory((replace(PLAIN, **fields),), taken_at=0.0)
    row = tensors_bundle(inventory)["text/plain"].splitlines()[3]
    assert words == re.split(r"\s{2,}", row.strip())[2]
