"""Benchmarks: ratios measured side by side in one run, never a timed test."""
