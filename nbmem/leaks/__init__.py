"""Which of the bytes alive are a leak: a pure function of records, with its sentences."""

from nbmem.leaks.chains import explain_chains
from nbmem.leaks.judge import judge_leaks
from nbmem.leaks.moment import CellRuns
from nbmem.leaks.words import explain_holder, explain_kind

__all__ = ["CellRuns", "explain_chains", "explain_holder", "explain_kind", "judge_leaks"]
