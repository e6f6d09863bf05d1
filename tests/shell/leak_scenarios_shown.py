"""Leaks of what was shown, thrown away or raised: IPython's caches, tracebacks, kept errors."""

from __future__ import annotations

from leak_scene import MIB, Scenario

OUTPUTS = (
    Scenario(
        "a displayed tensor after del",
        "stale_output",
        "output_cache",
        """
        x = probe(torch.ones(2**18))
        # %%
        x
        # %%
        del x
        """,
        ("x", "x;"),
        "forget_outputs()",
        path=("Out[{2}]",),
        target="everything",
        cost=("Out[{2}]",),
    ),
    Scenario(
        "a displayed list with a tensor in it",
        "stale_output",
        "output_cache",
        """
        x = probe(torch.ones(2**18))
        # %%
        [x, 'shown']
        # %%
        del x
        """,
        ("[x, 'shown']", "[x.shape, 'shown']"),
        "forget_outputs()",
        path=("Out[{2}]", "[0]"),
        target="everything",
        cost=("Out[{2}]",),
    ),
    Scenario(
        "a display that ran twice",
        "stale_output",
        "output_cache",
        """
        def show():
            return probe(torch.ones(2**18))
        # %%
        show()
        # %%
        show()
        """,
        ("    return probe(torch.ones(2**18))", "    return probe(torch.ones(2**18)).shape"),
        "forget_outputs()",
        path=("Out[",),
        made_by=None,
        bytes=2 * MIB,
        leaks=2,
        target="everything",
        cost=("Out[",),
    ),
    Scenario(
        "what %reset -f out leaves",
        "stale_output",
        "output_cache",
        """
        def show():
            return probe(torch.ones(2**18))
        # %%
        show()
        # %%
        %reset -f out
        """,
        ("    return probe(torch.ones(2**18))", "    return probe(torch.ones(2**18)).shape"),
        "forget_outputs()",
        path=("_",),
        made_by=2,
    ),
    Scenario(
        "a throwaway name",
        "stale_output",
        "throwaway_name",
        """
        values = torch.ones(4, 2**18)
        def best():
            top, index = values.max(0)
            probe(index)
            return top, index
        # %%
        top, _ = best()
        """,
        ("top, _ = best()", "top, index = best()"),
        "_ = ''",
        path=("_",),
        made_by=2,
        bytes=2 * MIB,
        after="told = float(top.sum())",
    ),
    Scenario(
        "the state of an lstm called _",
        "stale_output",
        "throwaway_name",
        """
        lstm = nn.LSTM(64, 1024, batch_first=True)
        def encode(batch):
            with torch.no_grad():
                out, state = lstm(batch)
            probe(state)
            return out, state
        # %%
        out, _ = encode(torch.ones(256, 2, 64))
        """,
        ("out, _ = encode(torch.ones(256, 2, 64))", "out, state = encode(torch.ones(256, 2, 64))"),
        "_ = ''",
        path=("_", "[0]"),
        made_by=2,
        bytes=2 * MIB,
        after="told = list(out.shape)",
    ),
)

_TRAIN = """
def train():
    acts = probe(torch.ones(2**18))
    return acts.shape / 0
# %%
train()
"""

ERRORS = (
    Scenario(
        "the error before the last one",
        "unreachable",
        "garbage",
        """
        import gc; gc.collect(); gc.disable()
        def work(n):
            acts = probe(torch.ones(2**18))
            return acts.view(n)
        # %%
        get_ipython().run_cell("work(3)");
        # %%
        get_ipython().run_cell("1 / 0");
        """,
        ("    return acts.view(n)", "    return acts.shape"),
        "gc.enable(); gc.collect();",
        path=("garbage", "local 'acts'"),
        made_by=None,
        after="told = float(torch.ones(3).sum())",
    ),
    Scenario(
        "an error just raised",
        "stale_error",
        "traceback",
        _TRAIN,
        ("    return acts.shape / 0", "    return acts.shape"),
        "forget_errors()",
        path=("traceback of cell [{2}]", "train()", "'acts'"),
        made_by=2,
        target="everything",
        cost=("%debug", "[{2}]"),
    ),
    Scenario(
        "an error with good cells after it",
        "stale_error",
        "traceback",
        _TRAIN + "# %%\nnumber = 1\n# %%\nnumber += 1\n",
        ("    return acts.shape / 0", "    return acts.shape"),
        "forget_errors()",
        path=("traceback of cell [{2}]", "train()", "'acts'"),
        made_by=2,
        target="everything",
        cost=("%debug", "[{2}]"),
        after="told = number + 1",
    ),
    Scenario(
        "locals of nested calls",
        "stale_error",
        "traceback",
        """
        def forward(batch):
            hidden = probe(batch + 1)
            raise ValueError("shapes differ")
        def step():
            batch = probe(torch.ones(2**18))
            forward(batch)
        # %%
        step()
        """,
        ('    raise ValueError("shapes differ")', "    return None"),
        "forget_errors()",
        path=("traceback of cell [{2}]", "step()"),
        made_by=2,
        bytes=2 * MIB,
        target="everything",
        cost=("%debug",),
    ),
    Scenario(
        "the cause of an error",
        "stale_error",
        "traceback",
        """
        def load():
            part = probe(torch.ones(2**18))
            raise KeyError("no such part")
        def start():
            try:
                load()
            except KeyError as missing:
                raise RuntimeError("not started") from missing
        # %%
        start()
        """,
        ('    raise KeyError("no such part")', "    return None"),
        "forget_errors()",
        path=("traceback of cell [{2}]", "load()", "'part'"),
        made_by=2,
        target="everything",
        cost=("%debug",),
    ),
    Scenario(
        "an operation that fails on its argument",
        "stale_error",
        "traceback",
        """
        model = nn.Linear(8, 2)
        def run():
            batch = probe(torch.ones(2**14, 16))
            with torch.no_grad():
                return model(batch)
        # %%
        run()
        """,
        ("        return model(batch)", "        return model(batch[:, :8]).shape"),
        "forget_errors()",
        path=("traceback of cell [{2}]",),
        made_by=2,
        bytes=MIB,
        target="everything",
        cost=("%debug",),
        after="told = list(model(torch.ones(1, 8)).shape)",
    ),
    Scenario(
        "an error kept by name",
        "stale_error",
        "saved_exception",
        """
        def train():
            acts = probe(torch.ones(2**18))
            raise ValueError("no convergence")
        # %%
        try:
            train()
        except ValueError as error:
            saved = error
        """,
        ("    saved = error", "    saved = str(error)"),
        "import traceback; traceback.clear_frames(saved.__traceback__)",
        path=("saved", "train()", "'acts'"),
        made_by=2,
        target="everything",
        cost=("saved",),
        after="told = str(saved)",
    ),
    Scenario(
        "a list of errors",
        "stale_error",
        "saved_exception",
        """
        errors = []
        def attempt(lr):
            weights = probe(torch.ones(2**18))
            raise ValueError(f"lr {lr}")
        # %%
        for lr in (1, 2):
            try:
                attempt(lr)
            except ValueError as error:
                errors.append(error)
        """,
        ("        errors.append(error)", "        errors.append(str(error))"),
        "import traceback\n"
        "for error in errors: traceback.clear_frames(error.__traceback__)\ndel error",
        path=("errors", "attempt()", "'weights'"),
        made_by=2,
        bytes=2 * MIB,
        leaks=2,
        target="everything",
        cost=("errors",),
        after="told = [str(error) for error in errors]",
    ),
    Scenario(
        "the frame of a call kept",
        "forgotten_reference",
        "saved_frame",
        """
        import sys
        def trace():
            acts = probe(torch.ones(2**18))
            return sys._getframe()
        # %%
        frame = trace()
        """,
        ("    return sys._getframe()", "    return sys._getframe().f_lineno"),
        "frame.clear()",
        path=("frame", "'acts'"),
        made_by=2,
        target="everything",
    ),
    Scenario(
        "frames kept in a list",
        "forgotten_reference",
        "saved_frame",
        """
        import sys
        frames = []
        def trace():
            acts = probe(torch.ones(2**18))
            frames.append(sys._getframe())
        # %%
        trace()
        """,
        ("    frames.append(sys._getframe())", "    frames.append(sys._getframe().f_lineno)"),
        "frames[0].clear()",
        path=("frames", "'acts'"),
        made_by=2,
        target="everything",
        after="told = len(frames)",
    ),
)

EVENTS = (
    Scenario(
        "a callback of IPython's events",
        "forgotten_reference",
        "ipython_event",
        """
        def watch():
            seen = [probe(torch.ones(2**18))]
            def note(*_): return len(seen)
            get_ipython().events.register("post_run_cell", note)
            later(lambda: forget_callbacks("note"))
        # %%
        watch()
        """,
        (
            "    seen = [probe(torch.ones(2**18))]",
            "    seen = [probe(torch.ones(2**18)).shape]",
        ),
        'forget_callbacks("note")',
        path=("post_run_cell", "note", "'seen'"),
        made_by=2,
        target="leak",
    ),
    Scenario(
        "a callback object of IPython's events",
        "forgotten_reference",
        "ipython_event",
        """
        class Watcher:
            def __init__(self):
                self.last = probe(torch.ones(2**18))
            def note(self, *_): pass
        # %%
        def start():
            get_ipython().events.register("pre_run_cell", Watcher().note)
        later(lambda: forget_callbacks("note"))
        # %%
        start()
        """,
        (
            "        self.last = probe(torch.ones(2**18))",
            "        self.last = probe(torch.ones(2**18)).shape",
        ),
        'forget_callbacks("note")',
        path=("pre_run_cell", "note", "last"),
        made_by=3,
        target="leak",
    ),
)
