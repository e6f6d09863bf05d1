"""Blocks that no tensor found has: what they are likely to be, and the rows that list them."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from nbmem.ledger.blocks import asked_for
from nbmem.records import AllocatorBlock, LedgerLine

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from nbmem.devices.snapshot import Block
    from nbmem.ledger.blocks import BlockJoin, Unclaimed

MAX_ROWS = 50
"""Rows of blocks that are told apart; what is smaller is summed by kind."""

WORKSPACE, GRAPH, FREED, UNKNOWN = "library workspace", "CUDA graph", "freed tensor", "unknown"
LIVE, WAITING = "live", "waits for a stream"
_LINES = {
    WORKSPACE: ("library workspace", "library workspaces (cuBLAS)"),
    GRAPH: ("CUDA graph", "private pools, without a tensor"),
    UNKNOWN: ("not found", "blocks without a tensor in Python"),
}
"""Code and label of the line of each kind: `unknown` is the code of a category already."""
_MAKES_WORKSPACE = re.compile(r":\d+ .*::\w*(workspace|blashandle|blaslthandle)", re.IGNORECASE)
"""A C++ function by its name: folders in which torch is built are called workspace, too."""


def unclaimed_lines(
    unclaimed: Iterable[Unclaimed], workspaces: frozenset[int], equals: str
) -> list[LedgerLine]:
    """Returns one line a kind: the bytes asked for in blocks that no storage found has."""
    sizes: dict[str, list[int]] = defaultdict(list)
    for part in unclaimed:
        sizes[kind_of(part.block, workspaces)].append(part.bytes)
    return [
        LedgerLine(code, label, sum(sizes[kind]), len(sizes[kind]), equals=equals)
        for kind, (code, label) in _LINES.items()
        if kind in sizes
    ]


def kind_of(block: Block, workspaces: frozenset[int]) -> str:
    """Returns what a live block without a tensor is likely to be.

    By the functions that allocated it where the allocator's history tells them; else a private
    pool is taken for a CUDA graph's, and a block for a workspace where it has the size of one.
    """
    if any(map(_MAKES_WORKSPACE.search, block.stack)):
        return WORKSPACE
    if block.private:
        return GRAPH
    return WORKSPACE if asked_for(block) in workspaces else UNKNOWN


def block_rows(
    join: BlockJoin, workspaces: frozenset[int], labels: Mapping[int, str]
) -> tuple[AllocatorBlock, ...]:
    """Returns the blocks that no tensor found has, like ones together, largest first.

    Args:
        join: the blocks joined with the storages found.
        workspaces: sizes of the library workspaces that torch makes.
        labels: the user's labels by address.
    """
    rows = [_live_row(part, workspaces, labels) for part in join.unclaimed]
    rows += [
        _row(block, block.size, block.requested, WAITING, FREED, labels) for block in join.waiting
    ]
    alike = defaultdict(list)
    for row in rows:
        alike[replace(row, requested=None)].append(row)
    grouped = sorted((_sum(group) for group in alike.values()), key=lambda row: -row.bytes)
    return tuple(grouped[:MAX_ROWS] + _rest(grouped[MAX_ROWS:]))


def _live_row(
    part: Unclaimed, workspaces: frozenset[int], labels: Mapping[int, str]
) -> AllocatorBlock:
    block, kind = part.block, kind_of(part.block, workspaces)
    if part.bytes < asked_for(block):  # the storages in it have the rest, and its rounding
        return _row(block, part.bytes, part.bytes, LIVE, kind, labels)
    return _row(block, block.size, block.requested, LIVE, kind, labels)


def _row(
    block: Block,
    size: int,
    requested: int | None,
    state: str,
    kind: str,
    labels: Mapping[int, str],
) -> AllocatorBlock:
    pool, label = "graph" if block.private else block.pool, labels.get(block.address, "")
    return AllocatorBlock(size, requested, 1, block.stream, state, pool, kind, block.stack, label)


def _sum(rows: Sequence[AllocatorBlock], *, several: bool = False) -> AllocatorBlock:
    first = rows[0]
    requested = [row.requested for row in rows if row.requested is not None]
    return AllocatorBlock(
        bytes=sum(row.bytes for row in rows),
        requested=sum(requested) if len(requested) == len(rows) else None,
        count=sum(row.count for row in rows),
        stream=None if several else first.stream,
        state=first.state,
        pool="several" if several else first.pool,
        kind=first.kind,
        stack=() if several else first.stack,
        label="" if several else first.label,
    )


def _rest(rows: Sequence[AllocatorBlock]) -> list[AllocatorBlock]:
    """Returns one row a state and kind for what is too small for rows of its own."""
    alike = defaultdict(list)
    for row in rows:
        alike[row.state, row.kind].append(row)
    summed = (_sum(group, several=True) for group in alike.values())
    return sorted(summed, key=lambda row: -row.bytes)
