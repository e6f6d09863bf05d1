"""Widgets over a session: `Panel(session)` shows its history and what is alive, and acts on it."""

from nbmem.panel.bodies import kind_for
from nbmem.panel.panel import Panel

__all__ = ["Panel", "kind_for"]
