"""Settings, as traitlets: `%config NbMem.units = 'SI'`, or `c.NbMem.units` in a config file."""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any

from traitlets import Bool, Enum, Float, Int, TraitError, Unicode, validate
from traitlets.config import Config, Configurable

from nbmem.errors import NbmemWarning

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


class NbMem(Configurable):
    """What nbmem shows and keeps."""

    units = Enum(
        ["IEC", "SI"],
        default_value="IEC",
        help="Units of sizes: IEC counts 1 KiB = 1024 B, SI counts 1 kB = 1000 B.",
    ).tag(config=True)
    device = Unicode(
        "auto",
        help=(
            "Device that cells are measured on unless %%gpumem --device says another: 'auto' takes"
            " the accelerators, or the cpu where there is none."
        ),
    ).tag(config=True)
    scan = Bool(
        True,
        help="List what each cell left alive. It costs one pass over the heap before and after.",
    ).tag(config=True)
    rows = Int(6, min=1, help="Lines of storages in the report under a cell.").tag(config=True)
    name_budget = Float(
        0.5, min=0.0, help="Seconds that finding names may take before it is cut short and noted."
    ).tag(config=True)
    history_limit = Int(1000, min=1, help="Cells that the history keeps.").tag(config=True)
    autosave = Unicode(
        "",
        help=(
            "File to which the history is written cell by cell, so that it outlives the kernel. At"
            " 64 MiB it becomes FILE.1, and a new one begins."
        ),
    ).tag(config=True)

    leak_threshold = Int(
        262_144, min=0, help="Bytes below which a leak is not reported; smaller ones are summed."
    ).tag(config=True)
    panel = Enum(
        ["auto", "full", "plain"],
        default_value="auto",
        help=(
            "What the panel is made of: 'full' has chart and sortable tables, which need the"
            " widgets of the package anywidget; 'plain' needs only ipywidgets' own, which every"
            " notebook page loads. With 'auto' it is plain until a page answers that it loads the"
            " others. It holds for panels opened from then on."
        ),
    ).tag(config=True)
    free_previous_outputs = Bool(
        False,
        help=(
            "Before a measured cell runs again, let go of what its runs before left in the"
            " variables that it is sure to assign anew, and of what it showed: so `model = …` never"
            " holds two copies. A cell that fails before it assigns them leaves none."
        ),
    ).tag(config=True)
    release_oom_traceback = Bool(
        False,
        help=(
            "After a cell that ran out of memory, let go of the local variables that its traceback"
            " keeps. %debug shows none of them then."
        ),
    ).tag(config=True)

    @validate("name_budget")
    def _check_budget(self, proposal: Any) -> float:
        seconds = float(proposal["value"])
        if math.isnan(seconds):  # it is not below the smallest value either
            raise TraitError("name_budget is a number of seconds, not nan; for example: 0.5")
        return seconds


def read_settings(shell: InteractiveShell | None) -> NbMem:
    """Returns the settings as the shell's configuration has them; what makes no sense is left out.

    IPython keeps a value in its configuration even when `%config` refused it.
    """
    settings = NbMem()
    if shell is None:
        return settings
    for name, value in dict(shell.config.get("NbMem", {})).items():
        try:
            settings.update_config(Config(NbMem={name: value}))
        except TraitError as error:
            sentence = f"NbMem.{name} stays {getattr(settings, name)!r}: {error}"
            warnings.warn(sentence, NbmemWarning, stacklevel=2)
    return settings
