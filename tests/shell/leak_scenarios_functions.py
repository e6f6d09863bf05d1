"""Leaks of what functions, classes, containers and iterators hold besides their values."""

from __future__ import annotations

from leak_scene import MIB, Scenario

FUNCTIONS = (
    Scenario(
        "a closure that gathers",
        "forgotten_reference",
        "closure",
        """
        def make_meter():
            seen = []
            def add(value):
                seen.append(value)
                return len(seen)
            return add
        add = make_meter()
        # %%
        add(probe(torch.ones(2**18)));
        """,
        ("        seen.append(value)", "        seen.append(value.shape)"),
        "add.__closure__[0].cell_contents.clear()",
        path=("add", "list 'seen'"),
        made_by=2,
        target="leak",
        after="told = add(torch.ones(3)) > 0",
    ),
    Scenario(
        "an attribute of a function",
        "forgotten_reference",
        "closure",
        """
        def add(value):
            add.seen.append(value)
            return len(add.seen)
        add.seen = []
        # %%
        add(probe(torch.ones(2**18)));
        """,
        ("    add.seen.append(value)", "    add.seen.append(value.shape)"),
        "add.seen.clear()",
        path=("add", "seen"),
        made_by=2,
        target="leak",
        after="told = add(torch.ones(3)) > 0",
    ),
    Scenario(
        "a default argument that gathers",
        "forgotten_reference",
        "default_argument",
        """
        def add(value, seen=[]):
            seen.append(value)
            return len(seen)
        # %%
        add(probe(torch.ones(2**18)));
        """,
        ("    seen.append(value)", "    seen.append(value.shape)"),
        "add.__defaults__[0].clear()",
        path=("add", "list 'seen'"),
        made_by=2,
        target="leak",
        after="told = add(torch.ones(3)) > 0",
    ),
    Scenario(
        "a default argument by keyword that caches",
        "forgotten_reference",
        "default_argument",
        """
        def load(n, *, cache={}):
            if n not in cache:
                cache[n] = probe(torch.ones(2**18) * n)
            return float(cache[n].sum())
        # %%
        size = load(2)
        """,
        (
            "        cache[n] = probe(torch.ones(2**18) * n)",
            "        cache[n] = probe(torch.ones(2**18) * n).sum()",
        ),
        "load.__kwdefaults__['cache'].clear()",
        path=("load", "dict 'cache'"),
        made_by=2,
        target="leak",
        after="told = load(2)",
    ),
    Scenario(
        "results in an lru_cache",
        "forgotten_reference",
        "function_cache",
        """
        import functools
        @functools.lru_cache(maxsize=None)
        def load(n):
            return probe(torch.ones(2**18) * n)
        # %%
        size = float(load(1).sum() + load(2).sum())
        """,
        ("@functools.lru_cache(maxsize=None)", "@staticmethod"),
        "load.cache_clear()",
        path=("load",),
        made_by=2,
        bytes=2 * MIB,
        target="everything",
        after="told = size, float(load(2).sum())",
    ),
    Scenario(
        "a cached method of a class without instances",
        "forgotten_reference",
        "function_cache",
        """
        import functools
        class Loader:
            @functools.lru_cache
            def load(self):
                return [probe(torch.ones(2**18))]
        # %%
        Loader().load()[0].shape;
        """,
        (
            "        return [probe(torch.ones(2**18))]",
            "        return [probe(torch.ones(2**18)).sum()]",
        ),
        "Loader.load.cache_clear()",
        path=("Loader", "load"),
        made_by=2,
        target="everything",
        after="told = len(Loader().load())",
    ),
    Scenario(
        "a list of a class",
        "forgotten_reference",
        "class_attribute",
        """
        class Trainer:
            seen = []
            def add(self, value):
                self.seen.append(value)
                return len(self.seen)
        # %%
        trainer = Trainer()
        trainer.add(probe(torch.ones(2**18)));
        # %%
        del trainer
        """,
        ("del trainer", "trainer.add(3);"),
        "Trainer.seen.clear()",
        path=("Trainer", "seen"),
        made_by=2,
        target="leak",
        after="told = Trainer().add(torch.ones(3)) > 0",
    ),
    Scenario(
        "a registry of a base class",
        "forgotten_reference",
        "class_attribute",
        """
        class Base:
            registry = {}
        class Layer(Base):
            def __init__(self):
                self.registry[type(self).__name__] = probe(torch.ones(2**18))
        # %%
        Layer();
        """,
        (
            "        self.registry[type(self).__name__] = probe(torch.ones(2**18))",
            "        self.registry[type(self).__name__] = probe(torch.ones(2**18)).shape",
        ),
        "Base.registry.clear()",
        path=("Base", "registry['Layer']"),
        made_by=2,
        target="leak",
        after="Layer(); told = list(Base.registry)",
    ),
    Scenario(
        "an attribute of a tensor",
        "forgotten_reference",
        "tensor_attribute",
        """
        x = torch.ones(3)
        # %%
        x.cache = probe(torch.ones(2**18))
        """,
        ("x.cache = probe(torch.ones(2**18))", "x.cache = probe(torch.ones(2**18)).shape"),
        "del x.cache",
        path=("x", "cache"),
        made_by=2,
        target="leak",
        after="told = float(x.sum())",
    ),
    Scenario(
        "an older value noted on a parameter",
        "forgotten_reference",
        "tensor_attribute",
        """
        net = nn.Linear(512, 512)
        # %%
        net.weight.before = {'value': probe(net.weight.detach().clone())}
        """,
        (
            "net.weight.before = {'value': probe(net.weight.detach().clone())}",
            "net.weight.before = {'value': float(probe(net.weight.detach().clone()).sum())}",
        ),
        "del net.weight.before",
        path=("net.weight", "before"),
        made_by=2,
        target="leak",
        after="told = list(net(torch.ones(2, 512)).shape)",
    ),
)

ITERATORS = (
    Scenario(
        "the buffer of a tee",
        "forgotten_reference",
        "iterator_buffer",
        """
        import itertools
        first, second = itertools.tee(probe(torch.ones(2**18)) for _ in range(3))
        # %%
        next(first); next(first); del first
        # %%
        number = 1
        # %%
        number += 1
        """,
        (
            "first, second = itertools.tee(probe(torch.ones(2**18)) for _ in range(3))",
            "first, second = itertools.tee(probe(torch.ones(2**18)).shape for _ in range(3))",
        ),
        "del second",
        path=("second",),
        made_by=2,
        bytes=2 * MIB,
        target="leak",
        cost=("next()",),
        lost=("second",),
    ),
    Scenario(
        "the buffer of a cycle",
        "forgotten_reference",
        "iterator_buffer",
        """
        import itertools
        batches = itertools.cycle([probe(torch.ones(2**18)) for _ in range(2)])
        # %%
        next(batches), next(batches);
        # %%
        number = 1
        # %%
        number += 1
        """,
        (
            "batches = itertools.cycle([probe(torch.ones(2**18)) for _ in range(2)])",
            "batches = itertools.cycle([probe(torch.ones(2**18)).shape for _ in range(2)])",
        ),
        "del batches",
        path=("batches",),
        bytes=2 * MIB,
        target="leak",
        cost=("next()",),
        lost=("batches",),
    ),
    Scenario(
        "a generator left in the middle",
        "forgotten_reference",
        "suspended_frame",
        """
        def batches():
            data = probe(torch.ones(2**18))
            for n in range(3):
                yield float(data[n])
        # %%
        steps = batches()
        first = next(steps)
        # %%
        number = 1
        # %%
        number += 1
        """,
        ("first = next(steps)", "first = max(steps)"),
        "steps.close()",
        path=("steps", "'data'"),
        made_by=2,
        target="leak",
        cost=("next()",),
        after="told = first",
    ),
    Scenario(
        "a coroutine that nobody awaits to its end",
        "forgotten_reference",
        "suspended_frame",
        """
        import types
        @types.coroutine
        def pause():
            yield
        async def fetch():
            data = probe(torch.ones(2**18))
            await pause()
            return float(data.sum())
        # %%
        job = fetch()
        job.send(None)
        # %%
        number = 1
        # %%
        number += 1
        """,
        ("job.send(None)", "job.close()"),
        "job.close()",
        path=("job", "'data'"),
        made_by=2,
        target="leak",
    ),
)
