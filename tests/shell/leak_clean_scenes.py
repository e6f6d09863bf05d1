"""Scenes in which nothing is a leak: each word of a finding would be a false alarm."""

from __future__ import annotations

from leak_scene import CleanScene

_NET = """
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(16, 512), nn.ReLU(), nn.Linear(512, 512))
opt = torch.optim.Adam(net.parameters(), lr=0.125)
x = torch.ones(512, 16)
def train():
    opt.zero_grad()
    loss = net(x).pow(2).mean()
    loss.backward()
    opt.step()
    return loss.item()
# %%
"""

CLEAN = (
    CleanScene(
        "a model in training", _NET + "for _ in range(3): train()\n", "told = [train(), train()]"
    ),
    CleanScene(
        "zeroed gradients and an optimizer that will step",
        _NET + "train(); opt.zero_grad(set_to_none=False)\n# %%\nnumber = 1\n# %%\nnumber += 1\n",
        "told = [train(), train()]",
    ),
    CleanScene(
        "an optimizer whose model only a loss waits for",
        _NET + "train()\nloss = net(x).pow(2).mean()\nkept = list(net.parameters())\n"
        "del net, train\n",
        "opt.zero_grad(); loss.backward(); opt.step(); told = float(kept[0].sum())",
    ),
    CleanScene(
        "gradients that are parts of one buffer",
        "net = nn.Linear(512, 512, bias=False)\n"
        "flat = torch.zeros(2**18); net.weight.grad = flat.view_as(net.weight)\n",
        "net(torch.ones(2, 512)).sum().backward(); told = float(flat.sum())",
    ),
    CleanScene(
        "gradients that are parts of a buffer of somebody's",
        "class Flat:\n"
        "    def __init__(self, net):\n"
        "        self.flat = torch.zeros(2**18)\n"
        "        net.weight.grad = self.flat.view_as(net.weight)\n"
        "net = nn.Linear(512, 512, bias=False); grads = Flat(net)\n",
        "net(torch.ones(2, 512)).sum().backward(); told = float(grads.flat.sum())",
    ),
    CleanScene(
        "pending gradients",
        _NET + "net(x).pow(2).mean().backward()\n# %%\nnumber = 1\n# %%\nnumber += 1\n",
        "opt.step(); told = train()",
    ),
    CleanScene(
        "a loss whose backward comes in the next cell",
        _NET + "loss = net(x).pow(2).mean()\n",
        "loss.backward(); opt.step(); told = train()",
    ),
    CleanScene(
        "a loss that waits for backward although its model has no name any more",
        _NET + "w = torch.ones(2**18, requires_grad=True)\n"
        "loss = net(x).pow(2).mean() + w.exp().mean()\ndel net, opt, train\n",
        "loss.backward(); told = float(w.grad.sum())",
    ),
    CleanScene(
        "a loss that waits among losses that are over",
        _NET + "losses = []\nfor _ in range(3):\n"
        "    losses.append(net(x).pow(2).mean())\n    opt.zero_grad(); losses[-1].backward()\n"
        "losses.append(net(x).pow(2).mean())\ndel net\n",
        "losses[-1].backward(); opt.step(); told = [float(loss) for loss in losses]",
    ),
    CleanScene(
        "a trunk that waits for the gradient of its head",
        _NET + "hidden = net[1](net[0](x))\nloss = net[2](hidden).pow(2).mean()\n"
        "(gradient,) = torch.autograd.grad(loss, hidden)\n",
        "hidden.backward(gradient); told = float(net[0].weight.grad.sum())",
    ),
    CleanScene(
        "a Function that keeps on its context what backward needs",
        """
        class Scaled(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.scale = torch.full_like(x, 2.0)
                return x * ctx.scale
            @staticmethod
            def backward(ctx, gradient):
                return gradient * ctx.scale
        w = torch.ones(2**18, requires_grad=True)
        # %%
        loss = Scaled.apply(w).sum()
        """,
        "loss.backward(); told = float(w.grad.sum())",
    ),
    CleanScene(
        "a checkpoint that waits for backward although its model has no name any more",
        """
        from torch.utils.checkpoint import checkpoint
        net = nn.Linear(512, 512)
        x = torch.ones(2, 512, requires_grad=True)
        # %%
        loss = checkpoint(net, x, use_reentrant=True).sum()
        del net
        """,
        "loss.backward(); told = list(x.grad.shape)",
    ),
    CleanScene(
        "a dict of the results of one forward pass",
        _NET + "hidden = net[0](x)\nout = {'hidden': hidden, 'logits': net[2](net[1](hidden))}\n",
        "opt.zero_grad(); out['logits'].pow(2).mean().backward(); opt.step(); told = train()",
    ),
    CleanScene(
        "a data set by name",
        """
        data = torch.ones(4, 2**18); labels = [torch.ones(2**18) for _ in range(2)]
        # %%
        from torch.utils.data import TensorDataset
        train_set = TensorDataset(data)
        # %%
        number = 1
        """,
        "told = float(train_set[0][0].sum())",
    ),
    CleanScene(
        "a loader in the middle of its epoch",
        """
        from torch.utils.data import DataLoader, TensorDataset
        loader = DataLoader(TensorDataset(torch.ones(8, 2**18)), batch_size=4)
        batches = iter(loader)
        # %%
        batch = next(batches)
        # %%
        number = 1
        # %%
        number += 1
        """,
        "told = float(next(batches)[0].sum())",
    ),
    CleanScene(
        "a generator that is being used",
        """
        def batches():
            data = torch.ones(3, 2**18)
            for part in data:
                yield float(part.sum())
        steps = batches()
        # %%
        first = next(steps)
        """,
        "told = [first, next(steps)]",
    ),
    CleanScene(
        "tied weights",
        """
        net = nn.ModuleDict({'embed': nn.Embedding(512, 512), 'head': nn.Linear(512, 512)})
        net['head'].weight = net['embed'].weight
        # %%
        number = 1
        """,
        "told = net['head'].weight is net['embed'].weight",
    ),
    CleanScene(
        "views of a base in use",
        """
        base = torch.arange(2.0**18)
        head, tail = base[:16], base[16:]
        rows = [row for row in base.view(256, 1024)]
        # %%
        number = 1
        """,
        "told = float(head.sum() + rows[3].sum())",
    ),
    CleanScene(
        "views that show all of a storage between them",
        """
        train, test = torch.arange(2.0**18).split([2**17 + 2**16, 2**16])
        # %%
        number = 1
        """,
        "told = float(train.sum() + test.sum())",
    ),
    CleanScene(
        "a state dict by name",
        _NET + "import copy\nbest = copy.deepcopy(net.state_dict())\nshared = net.state_dict()\n",
        "train(); net.load_state_dict(best); told = train()",
    ),
    CleanScene(
        "an exponential moving average",
        _NET + "import copy\naverage = copy.deepcopy(net)\n"
        "for p in average.parameters(): p.requires_grad_(False)\n# %%\n"
        "train()\nwith torch.no_grad():\n"
        "    for a, p in zip(average.parameters(), net.parameters()): a.lerp_(p, 0.125)\n",
        "told = [float(average(x).sum()), train()]",
    ),
    CleanScene(
        "keys and values of a decoding loop",
        """
        cache = [(torch.ones(1, 2**18), torch.ones(1, 2**18)) for _ in range(2)]
        def decode():
            for n, (keys, values) in enumerate(cache):
                cache[n] = torch.cat([keys, keys[-1:]]), torch.cat([values, values[-1:]])
        # %%
        decode()
        # %%
        decode(); decode()
        """,
        "told = [list(keys.shape) for keys, _ in cache]",
    ),
    CleanScene(
        "a replay buffer",
        """
        import collections
        replay = collections.deque(maxlen=3)
        # %%
        for n in range(5): replay.append(torch.ones(2**18) * n)
        # %%
        number = 1
        """,
        "told = [float(part[0]) for part in replay]",
    ),
    CleanScene(
        "two models by name",
        """
        student, teacher = nn.Linear(512, 512), nn.Linear(512, 512)
        # %%
        previous = student
        # %%
        student, teacher = nn.Linear(512, 512), nn.Linear(512, 512)
        """,
        "told = previous is not student",
    ),
    CleanScene(
        "losses after backward",
        _NET + "losses = []\nfor _ in range(3):\n"
        "    loss = net(x).pow(2).mean()\n    opt.zero_grad(); loss.backward(); opt.step()\n"
        "    losses.append(loss)\n# %%\nnumber = 1\n# %%\nnumber += 1\n",
        "told = [float(loss) for loss in losses] + [train()]",
    ),
    CleanScene(
        "a loss function that needs its weights",
        """
        import functools
        classes = torch.ones(2**18)
        criterion = functools.partial(nn.functional.cross_entropy, weight=classes)
        def make(weights):
            def loss(value): return float((value * weights).sum())
            return loss
        loss = make(torch.ones(2**18) * 2)
        del classes
        # %%
        number = 1
        """,
        "told = loss(torch.ones(2**18))",
    ),
    CleanScene(
        "a cache of numbers",
        """
        import functools
        @functools.lru_cache
        def norm(n): return float(torch.ones(2**18).mul(n).norm())
        # %%
        sizes = [norm(n) for n in range(4)]
        """,
        "told = sizes + [norm(2)]",
    ),
    CleanScene(
        "activations gathered into a list by name",
        """
        acts = []
        net = nn.Linear(16, 512)
        net.register_forward_hook(lambda module, inputs, output: acts.append(output.detach()));
        # %%
        with torch.no_grad(): net(torch.ones(512, 16));
        """,
        "told = len(acts)",
    ),
    CleanScene(
        "an array over all of a tensor",
        """
        array = torch.ones(2**18).numpy()
        # %%
        number = 1
        """,
        "told = float(array.sum())",
    ),
    CleanScene(
        "a displayed number and a displayed model by name",
        """
        net = nn.Linear(512, 512)
        net
        # %%
        net.weight.sum().item()
        """,
        "told = list(net(torch.ones(2, 512)).shape)",
    ),
    CleanScene(
        "an error whose frames hold what is wanted",
        """
        data = torch.ones(2**18)
        def use(batch): return batch.shape / 0
        # %%
        try:
            use(data)
        except TypeError as error:
            message = error
        """,
        "told = float(data.sum())",
    ),
    CleanScene(
        "a thread by name",
        """
        import threading
        go = threading.Event()
        def work(batch): go.wait()
        worker = threading.Thread(target=work, args=(torch.ones(2**18),), daemon=True)
        later(go.set)
        # %%
        worker.start()
        """,
        "told = worker.is_alive()",
    ),
    CleanScene(
        "a class whose instance lives",
        """
        class Bank:
            items = []
            def add(self, value): self.items.append(value)
        bank = Bank()
        # %%
        bank.add(torch.ones(2**18))
        """,
        "told = len(bank.items)",
    ),
    CleanScene(
        "a cell that replaces its model",
        """
        net = nn.Linear(512, 512); opt = torch.optim.SGD(net.parameters(), lr=0.125)
        # %%
        net = nn.Linear(512, 512); opt = torch.optim.SGD(net.parameters(), lr=0.125)
        # %%
        net = nn.Linear(512, 512); opt = torch.optim.SGD(net.parameters(), lr=0.125)
        """,
        "told = list(net(torch.ones(2, 512)).shape)",
    ),
    CleanScene(
        "accumulated gradients with a scheduler",
        _NET + "sched = torch.optim.lr_scheduler.StepLR(opt, 1)\n"
        "for part in x.split(256): net(part).pow(2).mean().backward()\n# %%\n"
        "opt.step(); sched.step(); opt.zero_grad()\n",
        "told = [train(), sched.get_last_lr()]",
    ),
    CleanScene(
        "an evaluation without graphs",
        _NET + "outputs = []\nwith torch.no_grad():\n"
        "    for _ in range(3): outputs.append(net(x))\n",
        "told = [float(out.sum()) for out in outputs]",
    ),
    CleanScene(
        "instances of a class with tensors in dataclasses",
        """
        import dataclasses
        @dataclasses.dataclass
        class Batch:
            pixels: torch.Tensor
            more: dict
        batches = [Batch(torch.ones(2**18), {'mask': torch.ones(2**18)}) for _ in range(2)]
        # %%
        number = 1
        """,
        "told = [float(b.pixels.sum()) for b in batches]",
    ),
)
