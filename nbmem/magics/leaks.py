"""`%gpumem leaks`, `holders` and `reclaim`: what they accept, and what they do."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from IPython.display import display

from nbmem import render
from nbmem.errors import NbmemError
from nbmem.magics.options import LineParser, one_of, or_words, rows_of_line
from nbmem.render.leak_words import GROUPED_BY
from nbmem.session.leaks import find_keys

if TYPE_CHECKING:
    from argparse import Namespace

    from nbmem.records import Leak, LeakReport
    from nbmem.session import Session

ROWS = 10
_WORD = re.compile(r"""(?P<quote>["'])(?P<inside>.*?)(?P=quote)(?=\s|$)|\S+""")


class WordParser(LineParser):
    """Takes what stands in quotes as one word."""

    def split(self, line: str) -> list[str]:
        """Returns the words of a line, without the quotes around them."""
        found = _WORD.finditer(line)
        return [match[0] if match["quote"] is None else match["inside"] for match in found]


class NameParser(LineParser):
    """Takes all that follows as one name: names of graphs have blanks in them."""

    def split(self, line: str) -> list[str]:
        """Returns the line as one word, without the quotes around it."""
        match = _WORD.fullmatch(line.strip())
        inside = match and match["inside"]
        return [inside or line.strip()] if line.strip() else []


def leaks_parser() -> LineParser:
    """Returns the parser of `%gpumem leaks`."""
    about = "Lists what is alive beyond what the values that you can name need."
    parser = LineParser("leaks", about=about, example="%gpumem leaks --by kind")
    parser.add_argument("--by", type=one_of(GROUPED_BY), metavar="KEY", help=or_words(GROUPED_BY))
    parser.add_argument("--device", metavar="DEVICE", help="only what is on cuda:0, cpu, …")
    parser.add_argument(
        "--rows", type=rows_of_line, default=ROWS, metavar="N", help=f"leaks shown; default: {ROWS}"
    )
    return parser


def reclaim_parser() -> LineParser:
    """Returns the parser of `%gpumem reclaim`."""
    parser = WordParser(
        "reclaim",
        about="Frees leaks, and says what came back.",
        example="%gpumem reclaim 1 3",
        more=(
            "TARGET is a number of the last table of %gpumem leaks, a variable, or the text of a\n"
            'holder in quotes, as in %gpumem reclaim "traceback of cell [7]". Without one, all\n'
            "goes that costs nothing: no %debug, no shown output. --pinned frees no leak: it\n"
            "gives back pinned CPU memory that torch keeps for later, as after %gpumem unpark."
        ),
    )
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="what to free")
    parser.add_argument("--all", action="store_true", help="take what costs something too")
    parser.add_argument("--pinned", action="store_true", help="empty torch's pinned cache instead")
    parser.add_argument("--dry-run", action="store_true", help="say what would go, free nothing")
    return parser


def holders_parser() -> LineParser:
    """Returns the parser of `%gpumem holders`."""
    parser = NameParser(
        "holders",
        about="Shows every way by which something is kept alive, shortest first.",
        example="%gpumem holders feats",
        more="NAME is a name of %gpumem tensors, a variable, Out[3], or the beginning of names.",
    )
    parser.add_argument("name", metavar="NAME", help="what is asked about")
    return parser


LEAKS, RECLAIM, HOLDERS = leaks_parser(), reclaim_parser(), holders_parser()


def show_leaks(session: Session, options: Namespace) -> None:
    """Shows the table of leaks; its numbers are good for `%gpumem reclaim` until the next."""
    if options.device is not None:
        _checked(session, options.device)
    report = session.shown_leaks = session.find_leaks()
    bundle = render.leaks_bundle(
        report,
        by=options.by,
        device=options.device,
        rows=options.rows,
        units=session.units,
        width=session.width,
    )
    display(bundle, raw=True)


def _checked(session: Session, device: str) -> None:
    try:
        session.check_device(device)
    except NbmemError as error:
        LEAKS.error(str(error))


def show_holders(session: Session, options: Namespace) -> None:
    """Shows why what a name stands for is alive."""
    try:
        keys, inventory = find_keys(session, options.name)
    except NbmemError as error:
        HOLDERS.error(str(error))
    names = {each.key: each.names[0] for each in inventory.storages if each.names}
    bundle = render.holders_bundle(
        session.find_holders(keys), options.name, names, units=session.units, width=session.width
    )
    display(bundle, raw=True)


def reclaim(session: Session, options: Namespace) -> None:
    """Frees what is asked for, or says what that would do; then what is left."""
    if options.all and options.targets:
        RECLAIM.error("--all takes everything: it goes without targets")
    if options.pinned:
        _empty_pinned(session, options)
        return
    act = session.plan_reclaim if options.dry_run else session.reclaim
    left = None
    try:
        report = act(_targets(session, options.targets), everything=options.all)
    except NbmemError as error:
        RECLAIM.error(str(error))
    if not options.dry_run:
        left = session.shown_leaks = session.find_leaks()
    bundle = render.reclaim_bundle(
        report, plan=options.dry_run, left=left, units=session.units, width=session.width
    )
    display(bundle, raw=True)


def _empty_pinned(session: Session, options: Namespace) -> None:
    if options.all or options.targets:
        RECLAIM.error("--pinned empties a cache: it goes alone or with --dry-run")
    report = session.empty_pinned(dry_run=options.dry_run)
    bundle = render.reclaim_bundle(
        report, plan=options.dry_run, units=session.units, width=session.width
    )
    display(bundle, raw=True)


def _targets(session: Session, words: list[str]) -> list[Leak | str] | None:
    """Returns the leaks and texts that are meant; None where nothing was asked for by name."""
    numbers = [int(word) for word in words if word.isdecimal() and len(word) < 9]
    known = session.shown_leaks
    if numbers and known is None:
        RECLAIM.error("no leaks were listed yet, run %gpumem leaks for their numbers")
    found = {n: _by_number(known, n) for n in numbers if known is not None}
    return [found[int(w)] if w.isdecimal() and len(w) < 9 else w for w in words] or None


def _by_number(report: LeakReport, number: int) -> Leak:
    count = len(report.leaks)
    if not 1 <= number <= count:
        listed = f"leaks 1 to {count}" if count > 1 else "leak 1 only" if count else "no leaks"
        RECLAIM.error(f"the last table had {listed}, not {number}")
    return report.leaks[number - 1]
