"""`%gpumem park` and `unpark`: what they accept, and what they do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from IPython.display import display

from nbmem.magics.leaks import WordParser
from nbmem.render.parking import parked_bundle, parking_bundle

if TYPE_CHECKING:
    from argparse import Namespace

    from nbmem.records import ReclaimReport
    from nbmem.session import Session


def park_parser() -> WordParser:
    """Returns the parser of `%gpumem park`."""
    parser = WordParser(
        "park",
        about="Moves memory from an accelerator to pinned CPU memory; alone, lists what is there.",
        example="%gpumem park model opt",
        more=(
            "NAME is a variable (a model, an optimizer, a tensor, what holds them), or a name\n"
            "below one, as model.encoder or batches[3]; in quotes where it has blanks. The\n"
            "tensors stay the same objects. Of an optimizer its state moves."
        ),
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="what to move")
    parser.add_argument("--dry-run", action="store_true", help="say what would move, move nothing")
    return parser


def unpark_parser() -> WordParser:
    """Returns the parser of `%gpumem unpark`."""
    parser = WordParser(
        "unpark",
        about="Brings what is parked back to the device it came from.",
        example="%gpumem unpark model",
        more="Without a NAME all of it comes back.",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="what to bring back")
    parser.add_argument("--dry-run", action="store_true", help="say what would move, move nothing")
    return parser


PARK, UNPARK = park_parser(), unpark_parser()


def park(session: Session, options: Namespace) -> None:
    """Parks what is named; where nothing is, lists what is parked."""
    if options.names:
        _show(session, session.park(options.names, dry_run=options.dry_run), options)
    elif options.dry_run:
        PARK.error("--dry-run says what would move, it goes with a NAME")
    else:
        bundle = parked_bundle(session.parked(), units=session.units, width=session.width)
        display(bundle, raw=True)


def unpark(session: Session, options: Namespace) -> None:
    """Brings back what is named, or everything."""
    _show(session, session.unpark(options.names, dry_run=options.dry_run), options)


def _show(session: Session, report: ReclaimReport, options: Namespace) -> None:
    bundle = parking_bundle(report, plan=options.dry_run, units=session.units, width=session.width)
    display(bundle, raw=True)
