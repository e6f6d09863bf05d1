"""Scenes in which the obvious line frees nothing, or takes more than it says.

Another name for the same thing, a copy that IPython shows, items beside, places that take no other
value. Every tensor that counts is probed, so that the bytes of all leaks are those of the probes.
"""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import dedent

from leak_scene import split_cells

_PASS = """
w = torch.ones(2**18, requires_grad=True)
def forward(n):
    hidden = probe((w * n).exp())
    return [hidden[i::4].sum() for i in range(4)]
def steps(n):
    found = [probe((w * n).exp()).sum()]
    for i in range(1, 4):
        found.append(found[-1] * probe(torch.full((), 2.0)).exp())
    return found
"""
_AGED = "\n# %%\nnumber = 1\n# %%\nnumber += 1\n"


@dataclass(frozen=True)
class RemedyScene:
    """Cells after which something leaks, and what a remedy takes besides values that stay."""

    name: str
    script: str
    fails: bool = False
    collects: bool = True
    lost: tuple[str, ...] = ()
    """Beginnings of the names whose values its cost says."""
    removes: str = ""
    """What has hooks that the second remedy removes; its other remedies leave them."""
    left: int = 0
    """Bytes of new storages that keep the values of one leak's small views."""

    @property
    def cells(self):
        return split_cells(dedent(self.script))


def graphs(name, cell, **more):
    return RemedyScene(name, f"{_PASS}# %%\n{cell}{_AGED}", **more)


GRAPHS = (
    graphs("several results of one graph", "feats = forward(1)"),
    graphs("results of one graph that lead to one another", "feats = steps(1)"),
    graphs("the same in a list with two names", "feats = steps(1)\nalso = feats"),
    graphs("the same in two lists", "feats = steps(1)\nalso = list(feats)"),
    graphs("the same with a variable for the last", "feats = steps(1)\nloss = feats[-1]"),
    graphs("results in a list with other items", "feats = [None, 'four', *forward(1), w]"),
    graphs("results in a tuple", "feats = tuple(forward(1))"),
    graphs("results in a deque", "import collections\nfeats = collections.deque(forward(1))"),
    graphs("results in a set", "feats = set(forward(1))"),
    graphs("results in a dict", "feats = dict(zip('abcd', forward(1)))"),
    graphs(
        "results in a dict with other entries", "feats = {'n': 3, **dict(zip('ab', forward(1)))}"
    ),
    graphs(
        "results under keys with braces",
        "feats = {f'{{{n}}} $w': x for n, x in enumerate(forward(1))}",
    ),
    graphs("results in variables", "a, b, c, d = forward(1)"),
    graphs(
        "ten results in attributes",
        "class Box: pass\nbox = Box()\n"
        "found = [*forward(1), *forward(1), *forward(1)]\n"
        "vars(box).update({f'n{i}': x for i, x in enumerate(found)})\ndel found",
    ),
    graphs("results of several passes in lists in a list", "runs = [forward(n) for n in range(3)]"),
    graphs(
        "results in dicts in a list",
        "runs = [{'loss': sum(forward(n)), 'parts': forward(n)} for n in range(2)]",
    ),
    graphs(
        "a result in a frozen dataclass",
        "import dataclasses\n@dataclasses.dataclass(frozen=True)\nclass Out:\n    loss: object\n"
        "out = Out(sum(forward(1)))",
    ),
    graphs(
        "a result behind a property",
        "class Out:\n    loss = property(lambda self: self.__dict__['loss'])\n"
        "out = Out(); vars(out)['loss'] = sum(forward(1))",
    ),
    graphs(
        "a result in a named tuple",
        "import collections\n"
        "out = collections.namedtuple('Out', 'loss logits')(sum(forward(1)), 3)",
    ),
    graphs(
        "a result in slots",
        "class Out:\n    __slots__ = ('loss',)\nout = Out(); out.loss = sum(forward(1))",
    ),
    graphs("a result that was shown too", "loss = sum(forward(1))\nloss"),
    graphs(
        "a result in a module list",
        "net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())\nnet[1].last = sum(forward(1))",
    ),
    graphs("a view of a result", "out = probe((w * 2).exp())[:9]\nout = out.sum().view(1)[:1]"),
    graphs("a node of a graph in a list", "nodes = [sum(forward(1)).grad_fn]"),
    graphs(
        "results after their backward", "feats = forward(1)\nsum(feats).backward(retain_graph=True)"
    ),
)

_TRAIN = """
class Trainer:
    def __init__(self, model):
        self.model, self.models = model, [model]
trainer = Trainer(probe(nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 8))))
trainer.model(torch.ones(4, 512)).sum().backward()
probe([p.grad for p in trainer.model.parameters()]);
"""
TRAINING = (
    RemedyScene(
        "gradients of frozen parameters of a trainer's model",
        _TRAIN + "# %%\nfor q in trainer.model.parameters(): q.requires_grad_(False)\ndel q\n",
        lost=("trainer.model", "trainer.models"),
    ),
    RemedyScene(
        "gradients of one frozen layer of a trainer's model",
        _TRAIN + "# %%\ntrainer.model[0].weight.requires_grad_(False);\n",
        lost=("trainer.model", "trainer.models"),
    ),
    RemedyScene(
        "zeros for a model while another variable is called p",
        "net = nn.Linear(512, 512)\np, key, x = 'mine', 'mine', 'mine'\n"
        "net(torch.ones(4, 512)).sum().backward()\nprobe([net.weight.grad, net.bias.grad]);\n"
        "net.zero_grad(set_to_none=False)\n",
        lost=("net",),
    ),
    RemedyScene(
        "an optimizer that a scheduler has too",
        "net = probe(nn.Linear(512, 512, bias=False))\nopt = torch.optim.Adam(net.parameters())\n"
        "plan = torch.optim.lr_scheduler.StepLR(opt, 2)\nnet(torch.ones(4, 512)).sum().backward()\n"
        "opt.step(); probe([net.weight.grad, opt]);\n# %%\ndel net\n",
        lost=("opt", "plan"),
    ),
)  # fmt: skip

_LOAD = "def load(): return probe(torch.arange(2.0**18)).view(256, 1024)\n# %%\n"
VIEWS = (
    RemedyScene("a small view with two names", _LOAD + "row = load()[3]\nalso = row", left=4096),
    RemedyScene("a small view in a tuple", _LOAD + "pair = (load()[3], 3)", left=4096),
    RemedyScene(
        "small views in a list", _LOAD + "rows = [load()[n] for n in range(8)]", left=8 * 4096
    ),
    RemedyScene(
        "small views in a list with other items",
        _LOAD + "rows = [None, *(load()[n] for n in range(8)), nn.Parameter(torch.ones(3))]",
        left=8 * 4096,
    ),
    RemedyScene("a small view that was shown", _LOAD + "row = load()[3]\nrow", left=4096),
    RemedyScene("small views in a dict", _LOAD + "rows = {n: load()[3] for n in 'ab'}" ,
                left=4096),
    RemedyScene(
        "a small view of what numpy once showed",
        _LOAD + "whole = load()\nmean = float(whole.numpy().mean())\nrow = whole[3]\ndel whole",
        left=4096,
    ),
    RemedyScene("two rows of an array", _LOAD + "rows = [load().numpy()[n] for n in range(2)]"),
    RemedyScene("a row of an array with two names", _LOAD + "row = load().numpy()[3]\nalso = row"),
)  # fmt: skip

_FAIL = """
def train(n):
    acts = probe(torch.ones(2**18))
    raise ValueError(n)
"""
ERRORS = (
    RemedyScene(
        "an exception that another one was raised from",
        _FAIL + "# %%\ntry:\n    try: train(1)\n"
        "    except ValueError as e: raise KeyError(2) from e\n"
        "except KeyError as e: err = e\n",
    ),
    RemedyScene(
        "an exception in the course of another",
        _FAIL + "# %%\ntry:\n    try: train(1)\n    except ValueError: raise KeyError(2)\n"
        "except KeyError as e: err = e\n",
    ),
    RemedyScene(
        "a traceback by its name",
        _FAIL + "# %%\ntry: train(1)\nexcept ValueError as e: tb = e.__traceback__\n",
    ),
    RemedyScene(
        "exceptions in a list",
        _FAIL + "errors = []\n# %%\nfor n in range(3):\n    try: train(n)\n"
        "    except ValueError as e: errors.append(e)\n",
    ),
    RemedyScene(
        "a frame whose caller has the tensor",
        "import sys\ndef inner(): return sys._getframe()\n"
        "def outer():\n    acts = probe(torch.ones(2**18))\n    return inner()\n"
        "# %%\nframe = outer()\n",
    ),
    RemedyScene(
        "a group of exceptions",
        _FAIL + "# %%\ntry: train(1)\nexcept ValueError as e: group = ExceptionGroup('all', [e])\n",
    ),
)  # fmt: skip

FUNCTIONS = (
    RemedyScene(
        "a list in a dict on a class",
        "class Trainer: seen = {'a': []}\n# %%\n"
        "Trainer.seen['a'].append(probe(torch.ones(2**18)))\n",
    ),
    RemedyScene(
        "a cache of a method",
        "import functools\nclass Data:\n    @functools.lru_cache\n"
        "    def load(self, n): return probe(torch.ones(2**18))\n"
        "data = Data()\n# %%\ndata.load(3).sum();\n",
    ),
    RemedyScene(
        "an attribute of a tensor that has two names",
        "x = torch.ones(3)\ny = x\n# %%\nx.cache = probe(torch.ones(2**18))\n",
    ),
    RemedyScene(
        "a generator in a list",
        "def batches():\n    for n in range(3):\n"
        "        batch = probe(torch.ones(2**18))\n        yield n\n"
        "kept = [batches(), 3]\n# %%\nnext(kept[0]);\n" + _AGED,
    ),
    RemedyScene(
        "an asynchronous generator",
        "async def batches():\n    for n in range(3):\n"
        "        batch = probe(torch.ones(2**18))\n        yield n\n"
        "waits = batches()\n# %%\nawait anext(waits);\n" + _AGED,
    ),
    RemedyScene(
        "an iterator in a list",
        "import itertools\nkept = [1, *itertools.tee(probe(torch.ones(2**18)) for _ in range(3))]\n"
        "# %%\nnext(kept[1]);\n" + _AGED,
        lost=("kept",),
    ),
    RemedyScene(
        "two that hold one thing",
        "def remember(x, seen=[]): seen.append(x)\n# %%\nremember(probe(torch.ones(2**18)))\n"
        "# %%\nremember.__defaults__[0][0]\n",
    ),
)  # fmt: skip

_NET = "net = nn.Sequential(nn.Linear(16, 512), nn.ReLU())\n"
_CALL = "\n# %%\nwith torch.no_grad():\n    net(torch.ones(512, 16));\n"
_SAVE = "    def save(module, inputs, output): acts.append(probe(output.detach()))\n"


def hooked(name, setup, call=_CALL):
    return RemedyScene(name, f"{_NET}{setup}{call}", removes="net")


HOOKS = (
    hooked(
        "a hook that is called with keywords and always",
        "def watch(layer):\n    acts = []\n    def save(module, inputs, kwargs, output):\n"
        "        acts.append(probe(output.detach()))\n"
        "    layer.register_forward_hook(save, with_kwargs=True, always_call=True)\nwatch(net[0])",
    ),
    hooked(
        "a hook before a layer",
        "def watch(layer):\n    acts = []\n"
        "    layer.register_forward_pre_hook(lambda m, x: acts.append(probe(x[0] * 1)))\n"
        "watch(net[1])",
    ),
    hooked(
        "a method as a hook",
        "class Recorder:\n    def __init__(self): self.acts = []\n"
        "    def save(self, module, inputs, output): self.acts.append(probe(output.detach()))\n"
        "net[0].register_forward_hook(Recorder().save);",
    ),
    hooked(
        "a partial as a hook",
        "import functools\n"
        "def save(module, inputs, output, acts): acts.append(probe(output.detach()))\n"
        "net[0].register_forward_hook(functools.partial(save, acts=[]));",
    ),
    hooked(
        "a hook that gathers in its default",
        "def watch(layer):\n    def save(module, inputs, output, acts=[]):\n"
        "        acts.append(probe(output.detach()))\n    layer.register_forward_hook(save)\n"
        "watch(net[0])",
    ),
    hooked(
        "one hook on two layers",
        f"def watch(net):\n    acts = []\n{_SAVE}"
        "    for layer in net: layer.register_forward_hook(save)\nwatch(net)",
    ),
    hooked(
        "a hook of an optimizer's steps",
        "opt = torch.optim.SGD(net.parameters(), lr=0.1)\ndef watch(opt):\n    seen = []\n"
        "    def save(opt, args, kwargs): seen.append(probe(torch.ones(2**18)))\n"
        "    opt.register_step_post_hook(save)\nwatch(opt)",
        "\n# %%\nopt.step()\n",
    ),
    hooked(
        "a hook of a gradient",
        "def watch(weight):\n    seen = []\n"
        "    weight.register_hook(lambda g: seen.append(probe(g.repeat(64, 1))))\n"
        "watch(net[0].weight)",
        "\n# %%\nnet(torch.ones(4, 16)).sum().backward()\n",
    ),
)

GROWTH = tuple(
    RemedyScene(
        f"{name} that grows",
        f"{start}\n# %%\n" + "\n# %%\n".join([f"run += 1\n{put}"] * 4),
        lost=("kept", "run"),
    )
    for name, start, put in (
        ("a list", "run, kept = 0, ['first']", "kept.append(probe(torch.ones(2**18)))"),
        ("a list from its front", "run, kept = 0, []", "kept.insert(0, probe(torch.ones(2**18)))"),
        ("a deque", "import collections; run, kept = 0, collections.deque()",
         "kept.append(probe(torch.ones(2**18)))"),
        ("a dict by numbers", "run, kept = 0, {}", "kept[run] = probe(torch.ones(2**18))"),
        ("a dict by names", "run, kept = 0, {}", "kept[f'run {run}'] = [probe(torch.ones(2**18))]"),
    )
)  # fmt: skip

SCENES = {
    "graphs": GRAPHS,
    "training": TRAINING,
    "views": VIEWS,
    "errors": ERRORS,
    "functions": FUNCTIONS,
    "hooks": HOOKS,
    "growth": GROWTH,
}
