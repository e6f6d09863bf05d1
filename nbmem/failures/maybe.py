"""Errors that are none of memory by their words, and often come where memory ran out."""

from __future__ import annotations

import re

from nbmem.failures.families import on_one_line
from nbmem.records import Note

_WORDS = (
    (
        r"\b(?:CUBLAS|CUDNN|CUSOLVER|CUSPARSE|HIPBLAS)_STATUS_NOT_INITIALIZED\b"
        r"|\bcublas runtime error : library not initialized",
        "The library could not start on the device, which is often for want of memory",
    ),
    (
        r"\b[Uu]nable to find a valid cuDNN algorithm\b"
        r"|\bunable to find an engine to execute this computation\b",
        "cuDNN found no algorithm, which is often for want of memory for its workspace",
    ),
    (
        r"\bDst tensor is not initialized\b",
        "TensorFlow could not copy a tensor to the device, which is as a rule for want of memory",
    ),
    (
        r"\b(?:UR_RESULT|PI)_ERROR_OUT_OF_RESOURCES\b",
        "The device ran out of some resource, which is often memory",
    ),
    (
        r"\bDataLoader worker \(pid.{0,40}\) is killed by signal: Killed",
        "The system killed a worker, which it does where main memory runs out",
    ),
)
_TABLE = tuple((re.compile(pattern), sentence) for pattern, sentence in _WORDS)


def maybe_out_of_memory(text: str) -> Note | None:
    """Returns a note where the error's words leave open whether memory ran out."""
    told = on_one_line(text)
    for pattern, sentence in _TABLE:
        if pattern.search(told):
            return Note("status", "maybe_oom", sentence)
    return None
