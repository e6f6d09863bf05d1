"""The links of a trail as the texts that people read; each text stands for one tensor."""

from __future__ import annotations

from nbmem.inventory.paths import NAMELESS, Step, write_explicit, write_step
from nbmem.inventory.trail import Link, Node, Trail
from nbmem.records import Note

MAX_CHARACTERS = 64_000_000
"""Of all names together; a long key above a long list would take more than the tensors do."""


def write_names(trail: Trail) -> list[str]:
    """Returns the name that each link of the trail gives, in the order of the links.

    Shorter than `trail.links` where the names grew too long; a note says so then.
    """
    writer = _Writer(trail.nodes)
    names = writer.names
    for link in trail.links:
        names.append(writer.write(link))
        if writer.characters > MAX_CHARACTERS:
            text = f"names incomplete: budget of {MAX_CHARACTERS:,} characters"
            trail.notes.append(Note("names", "budget", text))
            break
    return names


class _Writer:
    def __init__(self, nodes: list[Node]) -> None:
        self.names: list[str] = []
        self.characters = 0
        self._nodes = nodes
        self._texts: dict[int, str] = {NAMELESS: ""}
        self._taken: set[str] = set()

    def write(self, link: Link) -> str:
        base = self._texts.get(link.node)
        if base is None:
            base = self._write_node(link.node)
        text = self._step(base, link.step, link.key)
        if text in self._taken:
            text = self._write_other(base, link, text)
        self._taken.add(text)
        self.characters += len(text)
        return text

    def _step(self, base: str, step: Step, key: object) -> str:
        if step is Step.ITEM:
            return f"{base}[{key}]"
        if step is Step.STATE:
            return write_step(base, step, self.names[key])  # type: ignore[call-overload]
        if step is Step.GRADIENT:
            return write_step(self.names[key], step, None)  # type: ignore[call-overload]
        return write_step(base, step, key)

    def _write_node(self, node: int) -> str:
        unwritten = []
        while node not in self._texts:
            unwritten.append(node)
            node = self._nodes[node].parent
        text = self._texts[node]
        for index in reversed(unwritten):
            row = self._nodes[index]
            text = self._step(text, row.step, row.key)
        self._texts[unwritten[0]] = text  # not those between: deep ways would fill the memory
        self.characters += len(text)
        return text

    def _write_other(self, base: str, link: Link, text: str) -> str:
        """Returns a name that no other tensor has: two attributes may look the same."""
        if link.step not in (Step.STATE, Step.GRADIENT):
            longer = write_explicit(base, link.step, link.key)
            if longer not in self._taken:
                return longer
        number = 2
        while f"{text} #{number}" in self._taken:
            number += 1
        return f"{text} #{number}"
