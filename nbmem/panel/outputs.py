"""The panel's two outputs under a cell: the live widgets, and a copy for when they are gone.

A page that lost the kernel shows nothing of a widget, trusted or not. So a copy of text and HTML
stands below it, follows the panel, and is hidden by the panel's style as long as the widgets are
alive. Both bear the panel's id, since front ends put a cell's outputs into elements of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nbmem.panel.bodies import CSS as BODIES_CSS
from nbmem.panel.section import CSS as SECTION_CSS
from nbmem.panel.static import copy_html, copy_text
from nbmem.panel.words import plain_line_html

if TYPE_CHECKING:
    from nbmem.panel.snapshot import Snapshot

VIEW = "application/vnd.jupyter.widget-view+json"
LIVE = "nbmem panel: the live figures need a running kernel, `%load_ext nbmem`, `%gpumem panel`."
COMMANDS = (
    "Where no widgets show, `%gpumem`, `%gpumem history`, `%gpumem tensors`,\n"
    "`%gpumem ledger`, `%gpumem leaks` and `%gpumem reclaim` tell and do the same."
)

# A kernel that restarts leaves the widgets in the page, each marked as disconnected and deaf.
_DEAF = ".jupyter-widgets-disconnected"
_STYLE = f"""{SECTION_CSS}{BODIES_CSS}
.nbmem-panel{_DEAF} > * {{ display: none !important; }}
.nbmem-panel{_DEAF}::before {{
  content: "{LIVE}";
  padding: 0;
  font: inherit;
  line-height: 20px;
  color: inherit;
}}
"""


def style_html(model_id: str) -> str:
    """Returns the style sheet of the panel whose widgets have this id."""
    hidden = f"body:has(.{live_class(model_id)}:not({_DEAF})) .{_copy_class(model_id)}"
    return f"<style>{_STYLE}{hidden} {{ display: none; }}\n</style>"


def live_class(model_id: str) -> str:
    """Returns the class of the widgets of a panel."""
    return f"nbmem-live-{model_id}"


def _copy_class(model_id: str) -> str:
    return f"nbmem-copy-{model_id}"


def view_bundle(model_id: str) -> dict[str, Any]:
    """Returns the bundle of the live widgets, with words for pages that can't show them."""
    view = {"version_major": 2, "version_minor": 0, "model_id": model_id}
    html = plain_line_html(LIVE) + plain_line_html(COMMANDS)
    return {"text/plain": f"{LIVE}\n{COMMANDS}", "text/html": html, VIEW: view}


def copy_bundle(snapshot: Snapshot | None, model_id: str) -> dict[str, Any]:
    """Returns the bundle of the copy: what the panel showed last, text and HTML."""
    html = f'<div class="{_copy_class(model_id)}">{copy_html(snapshot)}</div>'
    return {"text/plain": copy_text(snapshot), "text/html": html}


def sentence_bundle(sentence: str) -> dict[str, Any]:
    """Returns the bundle that takes the place of the widgets."""
    return {"text/plain": sentence, "text/html": plain_line_html(sentence)}


class Outputs:
    """The outputs of one panel, as often as it was shown."""

    def __init__(self) -> None:
        self._views: list[Any] = []
        self._copies: list[Any] = []
        self._model_id = ""
        self._told: object = None

    def show(self, model_id: str, snapshot: Snapshot | None) -> None:
        """Displays the widgets and the copy below the cell that runs."""
        from IPython.display import display

        self._model_id = model_id
        self._views.append(display(view_bundle(model_id), raw=True, display_id=True))
        self._copies.append(display(copy_bundle(snapshot, model_id), raw=True, display_id=True))

    def follow(self, snapshot: Snapshot) -> None:
        """Brings the copies up to date, unless they say the same already."""
        alive = snapshot.inventory.storages if snapshot.inventory is not None else ()
        taken = None if snapshot.ledger is None else snapshot.ledger.taken_at
        leaks = None if snapshot.leaks is None else snapshot.leaks.leaks
        facts = (snapshot.records[-1:], len(snapshot.records), alive, snapshot.device, taken, leaks)
        if self._copies and facts != self._told:
            self._told = facts
            for handle in self._copies:
                handle.update(copy_bundle(snapshot, self._model_id), raw=True)

    def end(self, sentence: str) -> None:
        """Puts `sentence` where the widgets were; the copies stay."""
        for handle in self._views:
            handle.update(sentence_bundle(sentence), raw=True)
        self._views.clear()
        self._copies.clear()
