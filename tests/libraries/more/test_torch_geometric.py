"""What torch_geometric keeps in its stores, called as its user would write it."""

import sys
from pathlib import Path

import pytest
import torch
from torch_geometric.data import Batch, Data, HeteroData, TemporalData

sys.path.insert(0, str(Path(__file__).parents[1]))
from told_names import names_by_category, not_taken_back


def data(rows, width=3):
    return Data(x=torch.randn(rows, width), edge_index=torch.zeros(2, 5, dtype=torch.long))


def hetero():
    made = HeteroData()
    made["paper"].x = torch.randn(11, 3)
    made["author", "writes", "paper"].edge_index = torch.zeros(2, 13, dtype=torch.long)
    made.scale = torch.randn(17)
    return made


def temporal():
    return TemporalData(src=torch.zeros(19, dtype=torch.long), t=torch.zeros(23, dtype=torch.long))


@pytest.mark.parametrize(
    ("value", "names"),
    [
        (data(7), ["v.x", "v.edge_index"]),
        (
            hetero(),
            ["v['paper'].x", "v[('author', 'writes', 'paper')].edge_index", "v.scale"],
        ),
        (Batch.from_data_list([data(29), data(31)]), ["v.x", "v.batch", "v.ptr", "v.edge_index"]),
        (temporal(), ["v.src", "v.t"]),
        ([data(37)], ["v[0].x"]),
        (data(41)._store, ["v.x"]),
    ],
    ids=["data", "hetero", "batch", "temporal", "in a list", "store"],
)
def test_a_tensor_of_a_graph_is_called_as_it_is_written(notebook, value, names):
    notebook.names["v"] = value
    told = {name for listed in names_by_category().values() for name in listed}
    for name in names:
        assert name in told, told
        assert isinstance(eval(name, {"v": value}), torch.Tensor)
    assert [] == [name for name in told if "_mapping" in name or "._store" in name]
    assert [] == not_taken_back(notebook.names)
