"""What a finding and an act must be, told as sentences where they are not."""

from __future__ import annotations

import gc

import leak_probes
from leak_stage import without

import nbmem


def misses_of_finding(scene, leaks, counts):
    """Returns what is wrong with the findings of a scene, one text each."""
    wrong = []

    def expect(what, expected, got):
        if expected != got:
            wrong.append(f"{what}: expected {expected!r}, got {got!r}")

    expect("leaks", scene.leaks, len(leaks))
    expect("bytes", scene.told_bytes, sum(leak.bytes for leak in leaks))
    for leak in leaks:
        expect("kind", scene.kind, leak.kind)
        expect("holder", scene.holder, leak.holder)
        if scene.made_by is not None:
            expect("cell", counts[scene.made_by - 1], leak.created_by)
        expect("growth", scene.growth, leak.growth_per_run)
        expect("reclaimable", scene.target != "refused", leak.reclaimable)
        numbered = dict(zip(map(str, range(1, 99)), counts, strict=False))
        for word in scene.path:
            told = word
            for number, count in numbered.items():
                told = told.replace("{" + number + "}", str(count))
            if told not in leak.path_text:
                wrong.append(f"path: {told!r} is not in {leak.path_text!r}")
        for word in scene.cost:
            for number, count in numbered.items():
                word = word.replace("{" + number + "}", str(count))
            if word not in leak.cost:
                wrong.append(f"cost: {word!r} is not in {leak.cost!r}")
        if scene.target == "default" and leak.cost:
            wrong.append(f"cost: expected none, got {leak.cost!r}")
        if not leak.reason.endswith("."):
            wrong.append(f"reason is no sentence: {leak.reason!r}")
    return wrong


def reclaim(scene, leaks, **options):
    """Reclaims as the scene says that it can be."""
    if scene.target == "default":
        return nbmem.reclaim_memory(**options)
    if scene.target == "everything":
        return nbmem.reclaim_memory(everything=True, **options)
    return nbmem.reclaim_memory(leaks, **options)


def misses_of_restraint(scene):
    """What costs something must not be taken unasked; what may be wanted, by its name alone."""
    if scene.target not in ("everything", "leak"):
        return []
    alive = leak_probes.alive()
    report = nbmem.reclaim_memory(everything=scene.target == "leak")
    if report.dropped or leak_probes.alive() != alive:
        return [f"restraint: it dropped {report.dropped!r} unasked"]
    return []


def misses_of_act(scene, stage, leaks):
    """Plans, acts, and returns what went otherwise than promised."""
    values, alive = stage.values(), leak_probes.alive()
    wrong, priced = [], scene.target in ("everything", "leak")
    if not priced:
        plan = reclaim(scene, leaks, dry_run=True)
        if leak_probes.alive() != alive or plan.dropped:
            wrong.append(f"dry run: it freed or dropped {plan.dropped!r}")
        if stage.values() != values:
            wrong.append("dry run: it changed values")
    report = reclaim(scene, leaks)
    if priced and not report.costs:
        wrong.append("reclaim: it told no cost")
    if not priced and plan.promised != report.promised:
        wrong.append(f"dry run: promised {plan.promised}, then {report.promised}")
    gc.collect()
    if scene.target == "found":
        return wrong
    if scene.target == "refused":
        if leak_probes.alive() != alive or report.dropped:
            wrong.append(f"reclaim: it was to explain alone and dropped {report.dropped!r}")
        if not report.refused:
            wrong.append("reclaim: it refused without a word")
        if stage.values() != values:
            wrong.append("reclaim: it was to explain alone and changed values")
        return wrong
    if report.promised != scene.bytes - scene.left:
        wrong.append(f"promise: expected {scene.bytes - scene.left}, got {report.promised}")
    if report.promised != report.freed:
        wrong.append(f"outcome: promised {report.promised}, freed {report.freed}")
    if leak_probes.alive():
        wrong.append(f"reclaim: {leak_probes.alive()} live on; {report}")
    if report.still_held or report.refused:
        wrong.append(f"reclaim: still held {report.still_held}, refused {report.refused}")
    if without(values, scene.lost) != without(stage.values(), scene.lost):
        before, after = values.items(), stage.values().items()
        wrong.append(f"values: changed {sorted(set(before) ^ set(after))}")
    return wrong
