"""The sentences of the Leaks section, and its HTML; every text is escaped where it enters."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from nbmem.panel.columns import figures, one_line
from nbmem.panel.leak_columns import cost_sentence, size_sentence, who_frees
from nbmem.panel.leaks import size_of
from nbmem.panel.words import FONT, QUIET, few, list_html, sentence
from nbmem.render.html_parts import tag
from nbmem.render.names import clean
from nbmem.render.reclaim_words import headline
from nbmem.units import format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nbmem.panel.leaks import LeakList
    from nbmem.records import Inventory, Leak, LeakReport, ReclaimReport
    from nbmem.units import Units

MOST_DETAILS = 3
BLOCK = f"{FONT}line-height:18px;overflow-wrap:anywhere;max-width:720px;margin:2px;"
_CODE = (
    "margin:2px 0;padding:3px 6px;white-space:pre-wrap;overflow-wrap:anywhere;"
    "font-family:var(--jp-code-font-family,monospace);font-size:var(--jp-code-font-size,12px);"
    "line-height:18px;color:inherit;background:rgba(128,128,128,0.14);border-radius:2px;"
    "user-select:text;-webkit-user-select:text"
)
_LONGEST = 400


def title_of(report: LeakReport | None, units: Units) -> str:
    """Returns `Leaks · 2 · 1.20 GiB`, `Leaks · none`, and `Leaks` before anybody looked."""
    if report is None:
        return "Leaks"
    if not report.leaks:
        return "Leaks · none"
    return f"Leaks · {len(report.leaks):,} · {format_bytes(size_of(report.leaks), units)}"


def state_sentences(
    report: LeakReport, inventory: Inventory | None, units: Units
) -> tuple[str, ...]:
    """Returns what was looked at where nothing was found, what is small, what is not known."""
    parts = []
    if not report.leaks:
        least, looked = format_bytes(report.threshold, units), _looked_at(inventory, units)
        parts.append(f"No leak of {least} or more: {looked}.")
    if report.below:
        parts.append(f"Smaller leaks come to {format_bytes(report.below, units)}.")
    return (*parts, *(one_line(note.sentence, _LONGEST) for note in report.notes))


def _looked_at(inventory: Inventory | None, units: Units) -> str:
    if inventory is None or not inventory.storages:
        return "no tensor is alive"
    size = format_bytes(sum(each.bytes for each in inventory.storages), units)
    count = format_count(len(inventory.storages), "storage")
    return f"{count} of {size} together, and all that holds them, were looked at"


def sentences_html(sentences: Iterable[str]) -> str:
    """Returns quiet lines; nothing where there are none."""
    lines = "".join(tag("div", escape(sentence(text))) for text in sentences if text)
    return tag("div", lines, BLOCK + QUIET) if lines else ""


# What is chosen.


def details_html(leaks: Sequence[Leak], units: Units) -> str:
    """Returns why these leaks are there, what frees them and at what cost; the last one first."""
    parts = [_detail(leak, units) for leak in leaks[: -MOST_DETAILS - 1 : -1]]
    if len(leaks) > MOST_DETAILS:
        parts.append(tag("div", f"and {len(leaks) - MOST_DETAILS:,} more chosen", QUIET))
    label = "Why it is a leak, and what frees it"
    style = f"{BLOCK}user-select:text"
    return tag("div", "".join(parts), style, role="region", aria_label=label) if parts else ""


def _detail(leak: Leak, units: Units) -> str:
    parts = [
        tag("div", escape(one_line(leak.path_text, _LONGEST)), "font-weight:600"),
        tag("div", escape(size_sentence(leak, units)), QUIET),
        tag("div", escape(sentence(leak.reason))),
        code_html(leak.remedy),
        *_instead(leak),
        *(tag("div", escape(text)) for text in (cost_sentence(leak), who_frees(leak)) if text),
    ]
    return tag("div", "".join(parts), "margin-bottom:10px")


def _instead(leak: Leak) -> tuple[str, ...]:
    if not leak.instead:
        return ()
    told = f"or, which removes the {one_line(', the '.join(leak.sources), _LONGEST)} too:"
    return tag("div", escape(told)), code_html(leak.instead)


def code_html(code: str) -> str:
    """Returns lines of code that can be selected and copied; nothing where there are none."""
    lines = [clean(line) for line in code.splitlines()]
    return tag("pre", escape("\n".join(lines)), _CODE) if lines else ""


# The buttons.


def free_label(leaks: Sequence[Leak], units: Units) -> str:
    """Returns the text of the button: `Free…`, `Free 64.0 MiB`, `Free 2 (1.20 GiB)…`."""
    mine = [leak for leak in leaks if leak.reclaimable]
    if not mine:
        return "Free…"
    size = format_bytes(size_of(mine), units)
    if is_costless(leaks):
        return f"Free {size}" if len(mine) == 1 else f"Free {len(mine)} ({size})"
    return f"Free {size}…" if len(mine) == 1 else f"Free {len(mine)} ({size})…"


def source_label(leaks: Sequence[Leak]) -> str:
    """Returns the text of the button that frees leaks with what would fill them again."""
    return "Remove the hooks…" if len(sources_of(leaks)) > 1 else "Remove the hook…"


def sources_of(leaks: Sequence[Leak]) -> list[str]:
    """Returns what would fill these leaks again, each once."""
    return list(dict.fromkeys(source for leak in leaks for source in leak.sources))


def is_costless(leaks: Sequence[Leak]) -> bool:
    """Returns whether freeing all of these needs no plan first."""
    return bool(leaks) and all(
        leak.reclaimable and not leak.on_request and not leak.cost for leak in leaks
    )


def free_tip(leaks: Sequence[Leak]) -> str:
    """Returns what the button says when pointed at."""
    if not leaks:
        return "Choose rows of the table of leaks first."
    if not any(leak.reclaimable for leak in leaks):
        return "What holds it is in use: the text below says what to do."
    if is_costless(leaks):
        return "Frees it and shows the bytes that came back; it costs nothing."
    return "Shows what would be freed, and what that costs, before anything is."


def costless_tip(found: LeakList, units: Units) -> str:
    """Returns what `Free all that costs nothing` says when pointed at."""
    if not found.costless:
        return "Each of these costs something: choose rows to read what."
    size = format_bytes(size_of(found.costless), units)
    return f"Frees {format_count(len(found.costless), 'leak')}, {size}; nothing that you could use."


# The plan, and what came of it.


def plan_html(plan: ReclaimReport, units: Units) -> str:
    """Returns the plan: what will be freed, how many bytes, what it costs, what stays and why."""
    lists = [
        list_html("To be freed", plan.planned),
        tag("div", escape(promise_sentence(plan, units)), "margin-bottom:6px")
        if plan.planned
        else "",
        list_html("It costs", plan.costs),
        list_html("Stays", plan.refused),
        list_html("", [note.sentence for note in plan.notes]),
    ]
    if not any(lists):
        lists = [escape("Nothing of this can be freed from here.")]
    return tag("div", "".join(lists), BLOCK)


def promise_sentence(plan: ReclaimReport, units: Units) -> str:
    """Returns `1.14 GiB come back: 2.90 → 1.76 GiB, allocated on cuda:0.`."""
    if plan.promised is None:
        return "How many bytes come back can't be told before."
    told = f"{format_bytes(plan.promised, units)} come back"
    if plan.bytes_before is None:
        return f"{told}, {plan.counts}."
    span = figures([plan.bytes_before, plan.bytes_before - plan.promised], units)
    return f"{told}: {span.texts[0]} → {span.texts[1]} {span.unit}, {plan.counts}."


def confirm_label(plan: ReclaimReport, units: Units) -> str:
    """Returns the text of the button under a plan: `Free 1.14 GiB`."""
    size = "" if plan.promised is None else f" {format_bytes(plan.promised, units)}"
    return f"Free{size}{' of it' if plan.refused else ''}" if size else "Free"


def outcome(report: ReclaimReport, plan: ReclaimReport | None, units: Units) -> str:
    """Returns what the panel says afterwards: bytes, what is lost, what differs, what stays.

    The promise is the report's own or that of the `plan` that was confirmed.
    """
    parts = []
    if report.dropped or not report.refused:
        parts += [headline(report, units), _difference(report, plan, units)]
    notes = (note.sentence for note in report.notes)
    parts += [*report.refused, *report.still_held, *notes]
    return " ".join(few(sentence(part) for part in parts if part))


def _difference(report: ReclaimReport, plan: ReclaimReport | None, units: Units) -> str:
    promised = report.promised
    if promised is None and plan is not None:
        promised = plan.promised
    told = any(note.field == "promised" for note in report.notes)
    if told or promised is None or report.freed is None or promised == report.freed:
        return ""
    less = promised - report.freed
    word = "less" if less > 0 else "more"
    return (
        f"The plan promised {format_bytes(promised, units)}:"
        f" {format_bytes(abs(less), units)} {word} came back."
    )
