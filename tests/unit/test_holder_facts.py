"""Facts about what a value needs and that is still more than it needs: views, lost parameters."""

import torch
from torch import nn

from nbmem.heap import StorageTable
from nbmem.holders.web import open_web

N = 1 << 16


def facts_of(names, **options):
    with open_web(StorageTable(), names, **options) as web:
        return web.holders


def test_a_view_whose_graph_ends_at_the_weight_is_told_from_one_that_a_copy_frees():
    weight = torch.ones(N, requires_grad=True)
    part = weight[:8]
    del weight
    (fact,) = facts_of({"part": part}, threshold=1).views
    assert (("part",), True) == (fact.names, fact.attached)
    scale = torch.ones(1, requires_grad=True)
    (fact,) = facts_of({"scale": scale, "part": (torch.ones(N) * scale)[:8]}, threshold=1).views
    assert (("part",), False) == (fact.names, fact.attached)


def test_small_views_are_told_down_to_a_part_of_the_threshold():
    rows = [torch.ones(N)[0] for _ in range(3)]
    assert 3 == len(facts_of({"rows": rows}, threshold=64 * 4 * N).views)
    assert () == facts_of({"rows": rows}, threshold=65 * 4 * N).views


def test_weights_that_a_state_dict_still_shows_are_none_that_would_go_with_the_optimizer():
    model = nn.Linear(64, 64)
    optimizer = torch.optim.SGD(model.parameters(), momentum=0.9)
    model(torch.ones(1, 64)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    names = {"optimizer": optimizer, "first": model.state_dict()}
    del model
    table = StorageTable()
    with open_web(table, names) as web:
        (fact,) = web.holders.states
        sizes = sorted(ref.bytes for ref in table.live() if ref.serial in fact.keys)
    momentum = [64 * 4, 64 * 64 * 4]
    assert momentum == sizes
