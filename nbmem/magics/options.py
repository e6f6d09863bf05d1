"""What may follow `%gpumem`: options, help, and one line for what can't be read."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import TYPE_CHECKING

from IPython.core.error import UsageError

from nbmem.totals import FILTER_KEYS, GROUPINGS, SORTINGS, parse_filter

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import NoReturn

ROWS = 20
_LONGEST = 200


class LineParser(argparse.ArgumentParser):
    """Reads the words after a subcommand; wrong ones are a `UsageError` with an example."""

    def __init__(self, command: str, *, about: str, example: str, more: str = "") -> None:
        super().__init__(
            prog=f"%gpumem {command}",
            description=about,
            epilog=f"{more}\n\nFor example: {example}".strip(),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            add_help=False,
            allow_abbrev=False,
        )
        self.example = example
        self.color = False  # from Python 3.14 on: a notebook would show the escapes
        self.add_argument("-h", "--help", action="store_true", help="show this")

    def read(self, line: str) -> argparse.Namespace | None:
        """Returns the options in `line`; None where it asks for help.

        Raises:
            UsageError: one line: what is wrong, and an example that works.
        """
        words = self.split(line)
        if "-h" in words or "--help" in words:
            return None
        return self.parse_intermixed_args(words)

    def split(self, line: str) -> list[str]:
        """Returns the words of a line."""
        return line.split()

    def error(self, message: str) -> NoReturn:
        """Raises what is wrong with an example that works."""
        told = " ".join(message.split())
        told = told if len(told) <= _LONGEST else told[: _LONGEST - 1] + "…"
        raise UsageError(f"{self.prog}: {told}; for example: {self.example}")

    def help_text(self) -> str:
        """Returns the help that `--help` prints."""
        return self.format_help().strip()


@dataclass(frozen=True, slots=True)
class TensorsRequest:
    """What `%gpumem tensors …` asks for."""

    text: str
    by: str | None
    sort: str
    rows: int
    where: bool


def plain_parser(command: str, about: str) -> LineParser:
    """Returns the parser of a subcommand that takes nothing."""
    return LineParser(command, about=about, example=f"%gpumem {command}".rstrip())


def ledger_parser() -> LineParser:
    """Returns the parser of `%gpumem ledger`."""
    about = "Shows the sums of a device that close: every byte that torch and the driver know of."
    parser = LineParser("ledger", about=about, example="%gpumem ledger cpu")
    parser.add_argument("device", nargs="?", metavar="DEVICE", help="cuda:0, cpu, … (host: cpu's)")
    return parser


def tensors_parser() -> LineParser:
    """Returns the parser of `%gpumem tensors`."""
    parser = LineParser(
        "tensors",
        about="Lists live storages with your names for them.",
        example="%gpumem tensors conv size>1MiB --by module",
        more=(
            "A word of FILTER is looked for in names, category, module, dtype, shape,\n"
            "device and [cell]; all words must match. KEY=value, KEY!=value, size>1MiB\n"
            f"and the like compare {', '.join(FILTER_KEYS[:6])},\n"
            f"{', '.join(FILTER_KEYS[6:])}. A lone number is --rows."
        ),
    )
    parser.add_argument("filter", nargs="*", metavar="FILTER", help="words and comparisons")
    parser.add_argument("--by", type=one_of(GROUPINGS), metavar="KEY", help=or_words(GROUPINGS))
    parser.add_argument(
        "--sort", type=one_of(SORTINGS), metavar="KEY", help=f"{or_words(SORTINGS)}; default: size"
    )
    parser.add_argument(
        "--rows", type=rows_of_line, metavar="N", help=f"lines shown; default: {ROWS}"
    )
    parser.add_argument(
        "--where", action="store_true", help="what is on which device, pinned memory apart"
    )
    return parser


def tensors_request(options: argparse.Namespace, parser: LineParser) -> TensorsRequest:
    """Returns what the options of `%gpumem tensors` ask for.

    Raises:
        UsageError: they contradict each other, or the filter makes no sense.
    """
    words: Sequence[str] = options.filter
    rows = options.rows
    if rows is None and len(words) == 1 and words[0].isdecimal():
        rows, words = _number_of_rows(words[0], parser), ()
    text = " ".join(words)
    try:
        parse_filter(text)
    except ValueError as error:
        parser.error(str(error).partition("; for example")[0])
    _check(options, parser)
    return TensorsRequest(text, options.by, options.sort or "size", rows or ROWS, options.where)


def _check(options: argparse.Namespace, parser: LineParser) -> None:
    if options.where and (options.by or options.sort):
        parser.error("--where has an order of its own, it goes without --by and --sort")
    if options.by == "module" and options.sort:
        parser.error("modules stand in the order of their tree, --by module goes without --sort")
    if options.by and options.sort not in (None, "size", "name"):
        parser.error(f"groups are sorted by size or name, not by {options.sort}")


def _number_of_rows(word: str, parser: LineParser) -> int:
    try:
        return rows_of_line(word)
    except argparse.ArgumentTypeError as error:
        parser.error(str(error))


def rows_of_line(text: str) -> int:
    """Returns the number of rows that a word asks for."""
    if not text.isdecimal() or len(text) > 9 or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no number of rows")
    return int(text)


def one_of(accepted: Sequence[str]) -> Callable[[str], str]:
    """Returns what takes only these words."""

    def read(text: str) -> str:
        if text not in accepted:
            raise argparse.ArgumentTypeError(f"{text[:40]!r} is none of {', '.join(accepted)}")
        return text

    return read


def or_words(words: Sequence[str]) -> str:
    """Returns words as `a, b or c`."""
    return f"{', '.join(words[:-1])} or {words[-1]}"
