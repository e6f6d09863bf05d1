"""Where the code of a running cell can be met on the stack, and the line of the cell it is at.

Lines are those that a notebook shows: the `%%gpumem` line is line 1, and so are blank lines
counted that IPython leaves out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nbmem.tracking import Place

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

_TIMED = ("<timed exec>", "<timed eval>")
"""What `%%time` calls the code that it compiles."""


def place_of_cell(shell: InteractiveShell, info: Any, number: int | None, above: int = 0) -> Place:
    """Returns the place of the cell that is about to run.

    Args:
        shell: what runs it.
        info: IPython's `ExecutionInfo` of it.
        number: the n of its `[n]`; None where it is not stored.
        above: lines of the notebook's cell that stand above it (`%%capture` runs the rest).
    """
    lines = info.raw_cell.splitlines()
    magics = _magics(lines)
    if not magics:
        return Place({_file_name(shell, info, number): above + _blank(lines)})
    if "%%time" not in magics:
        return Place({})
    top = _blank(lines) + magics.index("%%time") + 1
    return Place(dict.fromkeys(_TIMED, above + top + _blank(lines[top:])))


def lines_above(outer: str, inner: str) -> int | None:
    """Returns how many lines of a cell stand above its rest `inner`; None: it is not its rest."""
    outer, inner = outer.rstrip(), inner.rstrip()  # IPython ends what it hands on with a new line
    if not inner or not outer.endswith(inner):
        return None
    return outer[: len(outer) - len(inner)].count("\n")


def _file_name(shell: InteractiveShell, info: Any, number: int | None) -> str:
    """Returns the name under which IPython or ipykernel is going to compile the cell."""
    code = transformed(shell, info)
    count = shell.execution_count if number is None else number
    return str(shell.compile.get_code_name(info.raw_cell, code, count))


def transformed(shell: InteractiveShell, info: Any) -> str:
    """Returns a cell as Python, its magics as calls."""
    code = getattr(info, "transformed_cell", None)  # IPython 9.11 and later
    return str(shell.transform_cell(info.raw_cell) if code is None else code)


def _blank(lines: list[str]) -> int:
    """Returns how many blank lines come first."""
    for index, line in enumerate(lines):
        if line.strip():
            return index
    return 0


def _magics(lines: list[str]) -> list[str]:
    """Returns the cell magics at the top but for `%%gpumem` as the only one, each in its line."""
    names = []
    for line in lines[_blank(lines) :]:
        if not line.startswith("%%"):
            break
        names.append(line.split()[0])
    return [] if names in ([], ["%%gpumem"]) else names
