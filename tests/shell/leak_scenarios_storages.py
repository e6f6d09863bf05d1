"""Leaks of large storages behind small views, and of what grows with each run of a cell."""

from __future__ import annotations

from leak_scene import MIB, Scenario

VIEWS = (
    Scenario(
        "a row of a large table",
        "oversized_view",
        "numpy_array",
        """
        def load():
            return probe(torch.ones(256, 1024)).numpy()
        # %%
        row = load()[3]
        """,
        ("row = load()[3]", "row = load()[3].copy()"),
        "row = row.copy()",
        path=("row",),
        made_by=2,
        after="told = float(row.sum())",
        by_name=True,
    ),
    Scenario(
        "arrays in a dict",
        "oversized_view",
        "numpy_array",
        """
        def load():
            return probe(torch.ones(256, 1024)).numpy()
        # %%
        parts = {'first': load()[0]}
        """,
        ("parts = {'first': load()[0]}", "parts = {'first': load()[0] * 1}"),
        "parts['first'] = parts['first'].copy()",
        path=("parts['first']",),
        made_by=2,
        after="told = float(parts['first'].sum())",
        by_name=True,
    ),
    Scenario(
        "a slice of a batch",
        "oversized_view",
        "tensor_attribute",
        """
        def load():
            return probe(torch.arange(2.0**18)).view(256, 1024)
        # %%
        sample = load()[:2]
        """,
        ("sample = load()[:2]", "sample = load()[:2].clone()"),
        "sample = sample.clone()",
        path=("sample",),
        made_by=2,
        left=2 * 1024 * 4,
        after="told = float(sample.sum())",
        by_name=True,
    ),
    Scenario(
        "a column of scores",
        "oversized_view",
        "container",
        """
        def score():
            return probe(torch.arange(2.0**18)).view(1024, 256)
        # %%
        kept = [score()[:, 0]]
        """,
        ("kept = [score()[:, 0]]", "kept = [score()[:, 0].contiguous()]"),
        "kept[0] = kept[0].clone()",
        path=("kept[0]",),
        made_by=2,
        left=1024 * 4,
        after="told = float(kept[0].sum())",
        by_name=True,
    ),
    Scenario(
        "the last hidden state",
        "oversized_view",
        "tensor_attribute",
        """
        torch.manual_seed(0)
        gru = nn.GRU(16, 64, batch_first=True)
        def encode(batch):
            with torch.no_grad():
                out, state = gru(batch)
            return probe(out)
        # %%
        features = encode(torch.ones(64, 64, 16))[:, -1]
        """,
        (
            "features = encode(torch.ones(64, 64, 16))[:, -1]",
            "features = encode(torch.ones(64, 64, 16))[:, -1] + 0",
        ),
        "features = features.clone()",
        path=("features",),
        made_by=2,
        left=64 * 64 * 4,
        after="told = features.sum(0).tolist()",
        by_name=True,
    ),
)

GROWTH = (
    Scenario(
        "a list that takes a tensor with each run",
        "growing",
        "container",
        """
        seen = []
        # %%
        seen.append(probe(torch.ones(2**18)))
        # %%
        seen.append(probe(torch.ones(2**18)))
        # %%
        seen.append(probe(torch.ones(2**18)))
        # %%
        seen.append(probe(torch.ones(2**18)))
        """,
        ("seen = []", "import collections; seen = collections.deque(maxlen=1)"),
        "seen.clear()",
        path=("seen",),
        made_by=None,
        bytes=4 * MIB,
        target="refused",
        after="seen.append(3); told = seen[-1]",
        lost=("seen",),
        by_name=True,
        growth=MIB,
        spoken_of=3 * MIB,
    ),
    Scenario(
        "a dict that takes a model with each run",
        "growing",
        "container",
        """
        models, run = {}, 0
        def name(): return f'model {run}'
        # %%
        run += 1
        models[name()] = probe(nn.Linear(512, 512, bias=False))
        # %%
        run += 1
        models[name()] = probe(nn.Linear(512, 512, bias=False))
        # %%
        run += 1
        models[name()] = probe(nn.Linear(512, 512, bias=False))
        # %%
        run += 1
        models[name()] = probe(nn.Linear(512, 512, bias=False))
        """,
        ("def name(): return f'model {run}'", "def name(): return 'model'"),
        "models.clear()",
        path=("models",),
        made_by=None,
        bytes=4 * MIB,
        target="refused",
        after="models[0] = 3; told = models[0]",
        lost=("models",),
        by_name=True,
        growth=MIB,
        spoken_of=3 * MIB,
    ),
)
