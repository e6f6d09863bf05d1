"""What `scripts/verify-gpu` is made of.

docs/gpu-ledger.md ── ledger: which tests a row names ── run: pytest, a process a file
                                                          └ results: one line an outcome
cards: what it ran on ─────────────── ledger: the row's cell ── docs/gpu-ledger.md
                                      recordings: snapshots ── one archive
"""
