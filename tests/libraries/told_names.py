"""Every name that nbmem tells, taken back: shared by the tests of libraries. Imports none."""

from __future__ import annotations

import torch

import nbmem
from nbmem.inventory import find_thing, resolve_name
from nbmem.inventory.parts import parts_of
from nbmem.session import current_session


def first_names(*skipped):
    """Returns {bytes: first name} of what lives, but for these categories."""
    return {
        one.bytes: one.names[0]
        for one in nbmem.list_storages()
        if one.names and one.category not in skipped
    }


def names_by_category():
    """Returns {category: first names} of what lives and has one, largest first."""
    told = {}
    for one in nbmem.list_storages():
        if one.names:
            told.setdefault(one.category, []).append(one.names[0])
    return told


def not_taken_back(names):
    """Returns the names, and the ways of chains, that do not lead to the storage they were told of.

    Args:
        names: the user's variables.
    """
    session, wrong = current_session(), []
    storages = [one for one in nbmem.list_storages() if one.names]
    for one in storages:
        for name in one.names:
            if one.key not in _keys_of(session, [resolve_name(name, names)]):
                wrong.append((name, "leads to another storage"))
    held = session.find_holders([one.key for one in storages]).held
    told = [(name, one.key) for one in storages for name in one.names]
    told += [(chain.text, one.key) for one in held for chain in one.chains]
    mine = tuple(name for name in names if not name.startswith("_"))
    for text, key in dict.fromkeys(told):
        is_way = text.startswith(mine) and " → graph[" not in text
        if is_way and key not in _keys_of(session, find_thing(text, names)):
            wrong.append((text, "does not lead there step by step"))
    return wrong


def _keys_of(session, things):
    found = [thing for thing in things if isinstance(thing, (torch.Tensor, torch.UntypedStorage))]
    return {
        entry.serial
        for thing in found
        for part in parts_of(thing)
        if (entry := session.table.find(part.storage)) is not None
    }
