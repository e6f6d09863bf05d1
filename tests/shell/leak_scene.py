"""The shape of a scene: cells that leak, and the one line that makes them a clean twin."""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import dedent

MIB = 1024**2
"""Of one tensor of the scenes: `torch.ones(2**18)`, above the 256 KiB that count as a leak."""
CELL = "# %%\n"


@dataclass(frozen=True)
class Scenario:
    """A leak, how it is told, what frees it, and its clean twin."""

    name: str
    kind: str
    holder: str
    script: str
    """The cells, parted by lines `# %%`. A cell with the source of an earlier one is that cell run
    again."""
    swap: tuple[str, str]
    """The line, as it stands there, and what stands in its place in the clean twin."""
    cure: str
    """Code that frees it without nbmem: so it is there that it is held, and nowhere else."""
    path: tuple[str, ...] = ()
    """Words of the path; `{2}` is the execution count of the second cell."""
    made_by: int | None = 1
    """Which cell made it, counted from 1."""
    bytes: int = MIB
    left: int = 0
    """Bytes of new storages that keep the value (of a small view that was cloned)."""
    leaks: int = 1
    target: str = "default"
    """`default`: taken without being asked for; `everything`: with `everything=True` only; `leak`:
    as a target; `refused`: explained and not touched; `found`: what reclaiming does is not told
    here."""
    cost: tuple[str, ...] = ()
    after: str = "told = float(torch.ones(3).sum())"
    """A cell that works after the leak is gone; `told` is what it is without nbmem."""
    lost: tuple[str, ...] = ()
    """Beginnings of the names whose values go, as those of gradients that nobody steps with."""
    by_name: bool = False
    """The storages can be reached by plain names: what makes them a leak is something else."""
    growth: int | None = None
    """Bytes that each run of a cell adds."""
    spoken_of: int | None = None
    """Bytes of the finding, where they are not all that the cure frees: what the newest run put
    into a list is no leak yet."""

    @property
    def cells(self):
        return split_cells(self.script)

    @property
    def clean(self):
        """The cells of the twin."""
        old, new = self.swap
        lines = dedent(self.script).strip("\n").splitlines()
        (place,) = [n for n, line in enumerate(lines) if line == old]
        lines[place] = new
        return split_cells("\n".join(lines))

    @property
    def told_bytes(self):
        """Bytes that the findings speak of: what comes back."""
        return self.spoken_of or self.bytes - self.left

    @property
    def fails(self):
        """Whether a cell ends with an error."""
        return self.kind == "stale_error"

    @property
    def collects(self):
        """Whether garbage may be collected before looking."""
        return self.kind != "unreachable"


@dataclass(frozen=True)
class CleanScene:
    """Cells after which nothing is a leak."""

    name: str
    script: str
    after: str = "told = float(torch.ones(3).sum())"

    @property
    def cells(self):
        return split_cells(self.script)


def split_cells(script):
    """Returns the cells of a script."""
    return tuple(part.strip("\n") for part in (dedent(script).strip("\n") + "\n").split(CELL))
