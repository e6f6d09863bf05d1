"""Bounded list of cell records: query, save, load, compare, to a data frame."""

from nbmem.history.core import History

__all__ = ["History"]
