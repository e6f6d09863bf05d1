"""Storages filtered, sorted, and added up: by category, module, cell, name, dtype or device."""

from nbmem.totals.filters import FILTER_KEYS, Filter, filter_storages, parse_filter
from nbmem.totals.groups import (
    GROUPINGS,
    Group,
    Totals,
    device_of,
    group_storages,
    root_of,
    total_storages,
)
from nbmem.totals.modules import ModuleTotal, ModuleTree, module_tree, split_module
from nbmem.totals.order import SORTINGS, natural, sort_storages
from nbmem.totals.places import Place, Places, places_by_category

__all__ = [
    "FILTER_KEYS",
    "GROUPINGS",
    "SORTINGS",
    "Filter",
    "Group",
    "ModuleTotal",
    "ModuleTree",
    "Place",
    "Places",
    "Totals",
    "device_of",
    "filter_storages",
    "group_storages",
    "module_tree",
    "natural",
    "parse_filter",
    "places_by_category",
    "root_of",
    "sort_storages",
    "split_module",
    "total_storages",
]
