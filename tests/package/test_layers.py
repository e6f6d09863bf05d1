"""Imports go one way: the table in docs/architecture.md is held against every import."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "nbmem"
VOCABULARY = {"units", "errors", "records"}


def read_table():
    """Returns {room: names of what it may import}, in the table's order."""
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    rows = re.findall(r"^\| (`[^|]+) \|[^|]+\| ([^|]+) \|$", text, re.MULTILINE)
    table = {}
    for rooms, allowed in rows:
        for room in re.findall(r"`([a-z_]+)/?`", rooms):
            table[room] = {word.strip() for word in allowed.split(",")}
    return table


TABLE = read_table()


def room_of(path):
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports_of(path):
    """Yields (module, at top level?, only for types?) of every import in a file."""
    tree = ast.parse(path.read_text("utf-8"))
    typing_only = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and getattr(block.test, "id", "") == "TYPE_CHECKING"
        for node in ast.walk(block)
    }
    top = {id(node) for node in tree.body}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names = (
                [f"nbmem.{alias.name}" for alias in node.names]
                if node.module == "nbmem"
                else [node.module]
            )
        else:
            continue
        for name in names:
            yield name, id(node) in top, id(node) in typing_only


FILES = sorted(
    path
    for path in PACKAGE.rglob("*.py")
    if path.parent != PACKAGE or path.stem not in ("__init__", "_version")
)


def test_table_names_every_room_and_no_other():
    assert {room_of(path) for path in FILES} == set(TABLE)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_file_imports_only_what_its_room_may(path):
    room = room_of(path)
    order = list(TABLE)
    allowed = TABLE[room]
    below = set(order[: order.index(room)])
    for name, _top, _typing in imports_of(path):
        if not name.startswith("nbmem."):
            continue
        other = name.split(".")[1]
        if other in VOCABULARY | {room, "_version"}:
            continue
        assert other in below, f"{room} stands below {other}, which {path.name} imports"
        assert other in allowed or "all above" in allowed, f"{room} may not import {other}"


@pytest.mark.parametrize(
    "room", ["units", "errors", "records", "origins", "leaks", "history", "render"]
)
def test_rooms_without_torch(room):
    for path in FILES:
        if room_of(path) == room:
            heavy = {n.split(".")[0] for n, _, typing in imports_of(path) if not typing}
            assert "torch" not in heavy, path.name


def test_bokeh_and_widgets_are_imported_only_where_they_are_shown():
    for path in FILES:
        heavy = {n.split(".")[0] for n, _, typing in imports_of(path) if not typing}
        if room_of(path) not in ("panel", "render"):
            assert not heavy & {"bokeh", "ipywidgets", "anywidget"}, path.name


def test_no_file_is_longer_than_400_lines():
    long = {
        path.name: lines
        for path in FILES
        if (lines := len(path.read_text("utf-8").splitlines())) > 400
    }
    assert {} == long


def test_no_room_has_the_name_of_a_public_function():
    import nbmem

    assert set() == set(nbmem.__all__) & set(TABLE)
