"""One colour and one letter for each category, the same in text, HTML, chart and panel.

The colours are those of Okabe and Ito, which most colour-blind people can tell apart; the letter
goes with them everywhere, so that colour is never the only sign. Black and yellow are left out:
they vanish on a black and on a white page.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

COLOURS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "parameter": "#0072B2",  # blue
        "buffer": "#56B4E9",  # sky blue
        "gradient": "#D55E00",  # vermilion
        "optimizer state": "#E69F00",  # orange
        "saved for backward": "#009E73",  # bluish green
        "user": "#CC79A7",  # reddish purple
        "unknown": "#999999",
    }
)
"""Category to colour, in the order of `records.CATEGORIES`."""

LETTERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "parameter": "P",
        "buffer": "B",
        "gradient": "G",
        "optimizer state": "O",
        "saved for backward": "S",
        "user": "U",
        "unknown": "?",
    }
)
"""Category to the letter that stands for it where there is no room for the word."""

INKS: Final[Mapping[str, str]] = MappingProxyType(
    {category: "#FFFFFF" if category == "parameter" else "#000000" for category in COLOURS}
)
"""Category to the colour of a letter that stands on the category's own colour."""

HATCHES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "parameter": "blank",
        "buffer": "dot",
        "gradient": "right_diagonal_line",
        "optimizer state": "vertical_line",
        "saved for backward": "horizontal_line",
        "user": "left_diagonal_line",
        "unknown": "cross",
    }
)
"""Category to the pattern, by Bokeh's name of it, that a bar has where a letter has no room."""

NEUTRAL: Final = "#888888"
"""For rules and empty parts of bars: as far from white as from black."""


def colour_of(category: str) -> str:
    """Returns the colour of `category`; that of `unknown` for a word this version has not met."""
    return COLOURS.get(category, COLOURS["unknown"])


def letter_of(category: str) -> str:
    """Returns the letter of `category`; `?` for a word this version has not met."""
    return LETTERS.get(category, LETTERS["unknown"])


def ink_of(category: str) -> str:
    """Returns the colour in which a letter reads on `colour_of(category)`."""
    return INKS.get(category, INKS["unknown"])
