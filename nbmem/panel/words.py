"""The panel's sentences: what an act did, what it would do, what went wrong."""

from __future__ import annotations

from dataclasses import replace
from html import escape
from typing import TYPE_CHECKING

from nbmem.panel.columns import figures, one_line
from nbmem.panel.live_columns import storage_name
from nbmem.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nbmem.records import ReclaimReport, StorageRecord
    from nbmem.units import Units

NOT_LOADED = "nbmem was unloaded here. `%load_ext nbmem` and `%gpumem panel` bring the panel back."
CLOSED = "This panel was closed. `%gpumem panel` shows a new one."
NO_CACHE = "Only the allocator of an accelerator keeps a cache, and there is none here."
_MOST_SENTENCES = 12
FONT = (
    "font-family:var(--jp-ui-font-family,system-ui,sans-serif);"
    "font-size:var(--jp-ui-font-size1,13px);color:var(--jp-ui-font-color1,inherit);"
)
NOW, LATER = "nbmem-now", "nbmem-later"
QUIET = "font-size:var(--jp-ui-font-size0,11px);color:var(--jp-ui-font-color2,GrayText);"


def freed_sentence(report: ReclaimReport, units: Units) -> str:
    """Returns `Freed 64.0 MiB (256 → 192 MiB allocated on cuda:0).`, or why nothing came back."""
    before, after, freed = report.bytes_before, report.bytes_after, report.freed
    if freed is None or before is None or after is None:
        return "How many bytes came back is not known."
    span = figures([before, after], units)
    between = f"{span.texts[0]} → {span.texts[1]} {span.unit}, {report.counts}"
    if freed > 0:
        return f"Freed {format_bytes(freed, units)} ({between})."
    if freed == 0:
        return f"{report.act} freed nothing ({format_bytes(after, units)}, {report.counts})."
    return f"{format_bytes(-freed, units)} more than before {report.act} ({between})."


def answer(report: ReclaimReport, units: Units) -> str:
    """Returns what the panel says after an act, one line."""
    notes = (note.sentence for note in report.notes)
    parts = [freed_sentence(report, units), *report.refused, *report.still_held, *notes]
    return " ".join(few(map(sentence, parts)))


def sentence(text: str) -> str:
    """Returns `text` on one line, with an end."""
    text = one_line(text, 400)
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."


def few(sentences: Iterable[str]) -> list[str]:
    """Returns as many as one reads, and a word about the rest."""
    listed = list(sentences)
    if len(listed) <= _MOST_SENTENCES:
        return listed
    return [*listed[:_MOST_SENTENCES], f"And {len(listed) - _MOST_SENTENCES} more."]


def gone_sentence(storages: Sequence[StorageRecord]) -> str:
    """Returns what the panel says of chosen rows that were freed before the press."""
    name, count = one_line(storage_name(storages[0]), 60), len(storages)
    what = f"{name} is" if count == 1 else f"{name} and {count - 1} more are"
    return f"{what} gone already: nothing was dropped."


def with_names(report: ReclaimReport, storages: Sequence[StorageRecord]) -> ReclaimReport:
    """Returns `report` with a storage's name where a refusal has its number."""
    named = {f"storage {each.key}": one_line(storage_name(each), 60) for each in storages}

    def told(sentence: str) -> str:
        words = " ".join(sentence.split(" ", 2)[:2])
        return f"{named[words]}{sentence[len(words) :]}" if words in named else sentence

    return replace(report, refused=tuple(map(told, report.refused)))


def is_simple(storages: Sequence[StorageRecord]) -> bool:
    """Returns whether dropping needs no plan first: one storage, held by plain variables only.

    A displayed value (`_`, `Out[4]`), an attribute or an item of a container is not plain.
    """
    if len(storages) != 1:
        return False
    names = storages[0].names
    return bool(names) and all(_is_plain(name) for name in names)


def _is_plain(name: str) -> bool:
    return name.isidentifier() and not name.startswith("_")


def del_label(storages: Sequence[StorageRecord], units: Units) -> str:
    """Returns the text of the button: `del`, `del x (64.0 MiB)`, `del 2 (288 MiB)…`."""
    if not storages:
        return "del"
    size = format_bytes(sum(storage.bytes for storage in storages), units)
    if is_simple(storages):
        return f"del {one_line(storages[0].names[0], 24)} ({size})"
    return f"del {len(storages)} ({size})…"


def confirm_label(plan: ReclaimReport, storages: Sequence[StorageRecord], units: Units) -> str:
    """Returns the text of the button under a plan; bytes only where the plan takes all chosen."""
    if plan.refused:
        return "Drop only these"
    return del_label(storages, units).rstrip("…")


def del_tip(storages: Sequence[StorageRecord]) -> str:
    """Returns what the button says when pointed at."""
    if not storages:
        return "Choose rows of the table of live tensors first."
    if is_simple(storages):
        return "Deletes the variable; the bytes that came back are shown."
    return "Shows what would be dropped before anything is."


def plan_html(plan: ReclaimReport) -> str:
    """Returns the plan as HTML: what will be dropped, what stays and why; escaped."""
    parts = [list_html("To be dropped", plan.planned), list_html("Stays", plan.refused)]
    if not any(parts):
        parts = [escape("Nothing of this can be dropped from here.")]
    return f'<div style="{FONT}line-height:18px;overflow-wrap:anywhere;">{"".join(parts)}</div>'


def list_html(head: str, sentences: Sequence[str]) -> str:
    """Returns sentences as a list under its head, escaped; nothing where there are none."""
    if not sentences:
        return ""
    items = "".join(f"<li>{escape(one_line(text, 400))}</li>" for text in few(sentences))
    head = f"<b>{escape(head)}</b>" if head else ""
    return f'{head}<ul style="margin:2px 0 6px;padding-left:18px;">{items}</ul>'


def line_html(text: str, lines: int = 2) -> str:
    """Returns the answer line as HTML, escaped; screen readers say it when it changes."""
    style = f"{FONT}min-height:{18 * lines}px;line-height:18px;overflow-wrap:anywhere;"
    return f'<div role="status" aria-live="polite" style="{style}">{escape(text)}</div>'


def quiet_html(text: str) -> str:
    """Returns small quiet words below something, escaped; as high with words as without."""
    style = f"{FONT}{QUIET}min-height:18px;line-height:18px;overflow-wrap:anywhere;"
    return f'<div style="{style}">{escape(text)}</div>'


def plain_line_html(text: str) -> str:
    """Returns one line of an output as HTML, escaped."""
    return f'<div style="{FONT}line-height:20px">{escape(text)}</div>'


def aside_html(title: str, aside: str = "", later: str = "") -> str:
    """Returns the quiet words at the right of a section's button, escaped.

    The title is there once more for screen readers, as a heading to jump to. After a second on the
    page the words give way to `later`: what is over sooner is not worth a word.
    """
    unseen = "position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);"
    cut = "overflow:hidden;text-overflow:ellipsis;white-space:nowrap;text-align:right;"
    shown = escape(aside)
    if later:
        shown = f'<span class="{NOW}">{shown}</span><span class="{LATER}">{escape(later)}</span>'
    return (
        f'<div style="{FONT}{QUIET}{cut}line-height:32px" title="{escape(later or aside)}">'
        f'<span role="heading" aria-level="3" style="{unseen}">{escape(title)}</span>{shown}</div>'
    )
