"""The links of a trail as the texts that people read; each text stands for one tensor."""

from __future__ import annotations

from typing import Any

from nbmem.inventory.paths import NAMELESS, Step, write_explicit, write_step
from nbmem.inventory.trail import Node, Trail
from nbmem.records import Note

MAX_CHARACTERS = 64_000_000
"""Of all names together; a long key above a long list would take more than the tensors do."""


def write_names(trail: Trail) -> Names:
    """Returns the names that the links of the trail give.

    Fewer than `trail.links` where they grew too long; a note says so then.
    """
    names = Names(trail.nodes)
    write, texts = names.write, names.texts
    for _, node, step, key in trail.links:
        texts.append(write(node, step, key))
        if names.characters > MAX_CHARACTERS:
            text = f"Names incomplete: budget of {MAX_CHARACTERS:,} characters"
            trail.notes.append(Note("names", "budget", text))
            break
    names.taken.clear()
    return names


class Names:
    """The texts of a trail's links, and of the containers on the way."""

    def __init__(self, nodes: list[Node]) -> None:
        self.texts: list[str] = []
        """In the order of the links."""
        self.characters = 0
        self._nodes = nodes
        self._texts: dict[int, str] = {NAMELESS: ""}
        self.taken: set[str] = set()
        """While names are written: those that a tensor has."""

    def clear(self) -> None:
        """Lets go of all texts."""
        self.texts.clear()
        self._texts.clear()
        self.taken.clear()

    def of_node(self, node: int) -> str:
        """Returns the name of a container."""
        text = self._texts.get(node)
        return self._write_node(node) if text is None else text

    def of_link(self, index: int) -> str | None:
        """Returns the name that a link gives; None where names grew too long before it."""
        return self.texts[index] if index < len(self.texts) else None

    def write(self, node: int, step: Step, key: Any) -> str:
        """Returns a name that no other link has."""
        base = self._texts.get(node)
        if base is None:
            base = self._write_node(node)
        if step is Step.ITEM:
            text = f"{base}[{key}]"
        elif step is Step.KEY:
            text = f"{base}[{key!r}]"
        else:
            text = self._step(base, step, key)
        if text in self.taken:
            text = self._write_other(base, step, key, text)
        self.taken.add(text)
        self.characters += len(text)
        return text

    def _step(self, base: str, step: Step, key: Any) -> str:
        if step is Step.STATE:
            return write_step(base, step, self.texts[key])
        if step is Step.GRADIENT:
            return write_step(self.texts[key], step, None)
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

    def _write_other(self, base: str, step: Step, key: Any, text: str) -> str:
        """Returns a name that no other tensor has: two attributes may look the same."""
        if step not in (Step.STATE, Step.GRADIENT):
            longer = write_explicit(base, step, key)
            if longer not in self.taken:
                return longer
        number = 2
        while f"{text} #{number}" in self.taken:
            number += 1
        return f"{text} #{number}"
