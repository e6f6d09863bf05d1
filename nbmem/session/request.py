"""The `%%gpumem` line: its options, and the transformer that takes it off the cell.

The line is read twice: by the transformer, which must stay pure and never raise (IPython calls it
for completeness checks too, where an exception hangs the kernel's answer), and by the cell events,
which do the measuring. A line that can't be read is left where it is, so that IPython calls the
registered magic, and that raises the `UsageError`.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable
from dataclasses import dataclass

from IPython.core.error import UsageError
from IPython.core.inputtransformer2 import (
    classic_prompt,
    ipython_prompt,
    leading_empty_lines,
    leading_indent,
)
from IPython.core.magic_arguments import argument, construct_parser, magic_arguments

from nbmem.errors import NbmemError

_LINE = re.compile(r"%%gpumem(?=\s|$)(?P<options>.*)", re.DOTALL)
_RUN_IN_PLACE = re.compile(r"%%(time|timeit|prun)(?=\s|$)")
"""Magics that may stand above: they transform the rest of the cell and run it themselves."""

_CLEANUPS: tuple[Callable[[list[str]], list[str]], ...] = (
    leading_empty_lines,
    leading_indent,
    classic_prompt,
    ipython_prompt,
)


@dataclass(frozen=True, slots=True)
class CellRequest:
    """What a `%%gpumem` line asks for."""

    label: str | None = None
    device: str | None = None
    quiet: bool = False
    scan: bool = True
    output: str | None = None


@magic_arguments()
@argument("-d", "--device", metavar="DEVICE", help="measure this device: cuda:0, mps, cpu, …")
@argument("-q", "--quiet", action="store_true", help="record the cell, print nothing")
@argument("--no-scan", action="store_true", help="counters only: faster, lists nothing that stayed")
@argument("-o", "--output", metavar="NAME", help="put the CellRecord into the variable NAME")
@argument("label", nargs="*", help="what to call the cell in the report and the history")
def gpumem_cell(line: str, cell: str) -> None:
    """Measures the cell: how much memory it took, its peak, and what it left alive.

    Examples::

        %%gpumem
        %%gpumem train one epoch
        %%gpumem --quiet -o record
        %%gpumem --device cpu --no-scan train one epoch
    """


_parser = construct_parser(gpumem_cell)

CheckDevice = Callable[[str], object]
"""Raises `NbmemError` for a device that this machine does not have."""


def parse_request(options: str, check_device: CheckDevice | None = None) -> CellRequest:
    """Returns what the text after `%%gpumem` asks for.

    Raises:
        UsageError: one line: what is wrong, and an example that works.
    """
    try:
        asked = _parser.parse_argstring(options.strip())
        if asked.device is not None and check_device is not None:
            check_device(asked.device)
    except (UsageError, ValueError, NbmemError) as error:
        raise UsageError(_usage(str(error))) from None
    if asked.output is not None and not _is_name(asked.output):
        raise UsageError(_usage(f"-o needs a variable name, not {asked.output!r}"))
    return CellRequest(
        label=" ".join(asked.label) or None,
        device=asked.device,
        quiet=asked.quiet,
        scan=not asked.no_scan,
        output=asked.output,
    )


def _usage(problem: str) -> str:
    problem = problem.strip().removeprefix("UsageError:").strip().splitlines()[0]
    return f"%%gpumem: {problem}; for example: %%gpumem --quiet -o record my label"


def _is_name(text: str) -> bool:
    return text.isidentifier() and not keyword.iskeyword(text)


class CellLine:
    """Finds the `%%gpumem` line of a cell, and takes it off: an input transformer of IPython's."""

    # IPython leaves transformers with side effects out of its completeness check. This one has
    # none, but a terminal must take `%%gpumem` + Enter as a cell still being typed.
    has_side_effects = True

    def __init__(self, check_device: CheckDevice | None = None) -> None:
        self._check_device = check_device
        self._interrupted = False

    def find(self, raw_cell: str) -> CellRequest | None:
        """Returns what the cell asks for; None where it asks nothing, or wrongly.

        Of several such lines the first that says something of a matter decides.
        """
        asked: CellRequest | None = None
        for line in _cleaned(raw_cell.splitlines(keepends=True)):
            if match := _LINE.match(line):
                more = self._parsed(match["options"])
                if more is None:
                    break
                asked = more if asked is None else _joined(asked, more)
            elif not _RUN_IN_PLACE.match(line):
                break
        return asked

    def __call__(self, lines: list[str]) -> list[str]:
        """Returns the cell without its leading `%%gpumem` line; line numbers stay as they are.

        Before another cell magic the line goes (that magic must come first); before code it
        becomes a comment. A line that can't be read stays. An interrupt waits for the cell's
        beginning: raised in here, it would leave the kernel without an answer.
        """
        try:
            return self._without_line(lines)
        except KeyboardInterrupt:
            self._interrupted = True
            return self._without_line(lines)

    def take_interrupt(self) -> bool:
        """Returns whether an interrupt came while a cell was being read."""
        taken, self._interrupted = self._interrupted, False
        return taken

    def _without_line(self, lines: list[str]) -> list[str]:
        match = _LINE.match(lines[0]) if lines else None
        if match is None or self._parsed(match["options"]) is None:
            return lines
        rest = lines[1:]
        if rest and rest[0].startswith("%%"):
            return self._without_line(rest)
        return ["# " + lines[0], *rest]

    def _parsed(self, options: str) -> CellRequest | None:
        try:
            return parse_request(options, self._check_device)
        except Exception:  # whatever it is, the registered magic meets it again and tells the user
            return None


def _joined(first: CellRequest, second: CellRequest) -> CellRequest:
    return CellRequest(
        label=first.label or second.label,
        device=first.device or second.device,
        quiet=first.quiet or second.quiet,
        scan=first.scan and second.scan,
        output=first.output or second.output,
    )


def _cleaned(lines: list[str]) -> list[str]:
    for cleanup in _CLEANUPS:
        lines = cleanup(lines) if lines else lines
    return lines
