"""Snapshots of the allocator made small, and free of the paths of the machine they come from."""

from __future__ import annotations

import re
import sysconfig
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

MAX_FRAMES, MAX_NATIVE, MAX_EVENTS = 8, 2, 60
ROOT = str(Path(__file__).resolve().parents[2]).replace("\\", "/")
_PYTHON = re.compile(r"\.(pyw?|ipynb)$|^<")
_PACKAGES = re.compile(r".*(/(?:site|dist)-packages/)")
_LIBRARY = re.compile(r".*(/lib(?:64)?/python\d[\d.]*/)")
_STDLIB = sysconfig.get_path("stdlib").replace("\\", "/") + "/"


def trim_snapshot(snapshot: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a snapshot as plain JSON data: all blocks, few frames, the newest events.

    Every segment and block stays, so its sums do. `_trimmed` says how many events were left out.
    """
    traces = [list(trace) for trace in snapshot.get("device_traces") or ()]
    rest = {
        key: value
        for key, value in snapshot.items()
        if key not in {"segments", "device_traces"} and _is_plain(value)
    }
    return {
        **rest,
        "segments": [_with_frames(segment) for segment in snapshot["segments"]],
        "device_traces": [[_with_frames(e) for e in t[-MAX_EVENTS:]] for t in traces],
        "_trimmed": {"events_left_out": sum(max(0, len(t) - MAX_EVENTS) for t in traces)},
    }


def _with_frames(part: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a segment, block or event with its frames trimmed, and those of its blocks."""
    copy = {key: value for key, value in part.items() if _is_plain(value)}
    if "frames" in part:
        copy["frames"] = trim_frames(part["frames"] or ())
    if "blocks" in part:
        copy["blocks"] = [_with_frames(block) for block in part["blocks"]]
    return copy


def trim_frames(frames: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Returns the innermost frames, of C++ the first two; paths say package, not machine."""
    kept, native = [], 0
    for frame in frames:
        is_native = not _PYTHON.search(str(frame["filename"]))
        native += is_native
        if not is_native or native <= MAX_NATIVE:
            kept.append({**frame, "filename": anonymous(str(frame["filename"]))})
    return kept[:MAX_FRAMES]


def anonymous(path: str) -> str:
    """Returns a path without the folders that name a machine or its user."""
    plain = path.replace("\\", "/")
    if not _PYTHON.search(plain) or plain.startswith("<"):
        return plain.rpartition("/")[2] or plain
    for pattern in (_PACKAGES, _LIBRARY):
        if match := pattern.match(plain):
            return plain[match.start(1) :]
    for prefix, name in ((f"{ROOT}/", "/project/"), (_STDLIB, "/lib/python3/")):
        if plain.startswith(prefix):
            return name + plain.removeprefix(prefix)
    return "/elsewhere/" + plain.rpartition("/")[2]


def _is_plain(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and _is_plain(one) for key, one in value.items())
    if isinstance(value, (list, tuple)):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, (str, int, float, bool))
