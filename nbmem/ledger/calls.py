"""What a line equals: the user's own calls of torch, with the device's index."""

from __future__ import annotations


class Calls:
    """The user's own calls that give the allocator's figures of one device."""

    def __init__(self, device: str, namespace: str | None = None) -> None:
        type_, _, index = device.partition(":")
        module = namespace or f"torch.{type_}"
        self.allocated = f"{module}.memory_allocated({index})"
        self.reserved = f"{module}.memory_reserved({index})"
        self.snapshot = f"torch.{type_}.memory_snapshot()"
        self._stats = f"{module}.memory_stats({index})"

    def stat(self, name: str) -> str:
        """Returns the figure: `memory_stats()` has it as `{name}.all.current`."""
        return f"{self._stats}: {name}"

    def minus(self, first: str, second: str) -> str:
        """Returns the difference of two such figures."""
        return f"{self.stat(first)} − {second}"
