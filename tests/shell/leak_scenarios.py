"""All scenes of leaks, by what holds them."""

from __future__ import annotations

from leak_scenarios_concurrent import CONCURRENT
from leak_scenarios_functions import FUNCTIONS, ITERATORS
from leak_scenarios_graphs import CYCLES, GRAPHS
from leak_scenarios_holders import CALLBACKS, GARBAGE, LIBRARIES
from leak_scenarios_hooks import HOOKS
from leak_scenarios_shown import ERRORS, EVENTS, OUTPUTS
from leak_scenarios_storages import GROWTH, VIEWS
from leak_scenarios_training import TRAINING

GROUPS = {
    "outputs": OUTPUTS,
    "errors": ERRORS,
    "events": EVENTS,
    "graphs": GRAPHS,
    "cycles": CYCLES,
    "training": TRAINING,
    "hooks": HOOKS,
    "functions": FUNCTIONS,
    "iterators": ITERATORS,
    "garbage": GARBAGE,
    "callbacks": CALLBACKS,
    "concurrent": CONCURRENT,
    "libraries": LIBRARIES,
    "views": VIEWS,
    "growth": GROWTH,
}
SCENARIOS = tuple(scene for group in GROUPS.values() for scene in group)
BY_NAME = {scene.name: scene for scene in SCENARIOS}
