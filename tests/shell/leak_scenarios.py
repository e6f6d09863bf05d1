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

SCENARIOS = (
    *OUTPUTS,
    *ERRORS,
    *EVENTS,
    *GRAPHS,
    *CYCLES,
    *TRAINING,
    *HOOKS,
    *FUNCTIONS,
    *ITERATORS,
    *GARBAGE,
    *CALLBACKS,
    *CONCURRENT,
    *LIBRARIES,
    *VIEWS,
    *GROWTH,
)
BY_NAME = {scene.name: scene for scene in SCENARIOS}
