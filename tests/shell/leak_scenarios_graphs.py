"""Leaks of autograd: graphs that values keep, and cycles that no collector breaks."""

from __future__ import annotations

from leak_scene import MIB, Scenario

_WEIGHT = "w = torch.ones(2**18, requires_grad=True)\n"
_TRAINED = """
torch.manual_seed(0)
net = nn.Linear(512, 512, bias=False)
opt = torch.optim.SGD(net.parameters(), lr=0.125)
def train(step):
    loss = net(torch.ones(2, 512)).add(step).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    return loss
"""
_AGED = "# %%\nnumber = 1\n# %%\nnumber += 1\n"

GRAPHS = (
    Scenario(
        "a list of losses",
        "retained_graph",
        "container",
        _WEIGHT + "losses = []\n# %%\n"
        "for step in range(3):\n"
        "    losses.append(probe((w + step).exp()).sum())\n",
        (
            "    losses.append(probe((w + step).exp()).sum())",
            "    losses.append(probe((w + step).exp()).sum().item())",
        ),
        "losses = [loss.detach() for loss in losses]",
        path=("losses", "graph", "ExpBackward0"),
        made_by=2,
        bytes=3 * MIB,
        target="everything",
        cost=("backward() through losses",),
        after="told = [float(loss) for loss in losses]",
    ),
    Scenario(
        "a list of losses of an earlier cell",
        "retained_graph",
        "container",
        _WEIGHT + "losses = []\n# %%\n"
        "for step in range(3):\n"
        "    losses.append(probe((w + step).exp()).sum())\n" + _AGED,
        (
            "    losses.append(probe((w + step).exp()).sum())",
            "    losses.append(probe((w + step).exp()).sum().detach())",
        ),
        "losses = [loss.detach() for loss in losses]",
        path=("losses", "graph", "ExpBackward0"),
        made_by=2,
        bytes=3 * MIB,
        target="everything",
        cost=("backward() through losses",),
        after="told = [float(loss) for loss in losses]",
    ),
    Scenario(
        "losses in a dict of metrics",
        "retained_graph",
        "container",
        _WEIGHT + "metrics = {'loss': [], 'step': 0}\n# %%\n"
        "for step in range(2):\n"
        "    metrics['loss'].append(probe((w + step).exp()).sum())\n",
        (
            "    metrics['loss'].append(probe((w + step).exp()).sum())",
            "    metrics['loss'].append(float(probe((w + step).exp()).sum()))",
        ),
        "metrics['loss'] = [loss.detach() for loss in metrics['loss']]",
        path=("metrics['loss']", "graph", "ExpBackward0"),
        made_by=2,
        bytes=2 * MIB,
        target="everything",
        cost=("backward() through metrics",),
        after="told = [float(loss) for loss in metrics['loss']]",
    ),
    Scenario(
        "a loss after its step",
        "retained_graph",
        "autograd_graph",
        _WEIGHT + "opt = torch.optim.SGD([w], lr=0.125)\n# %%\n"
        "loss = (probe(w.exp()) * w).sum()\n"
        "loss.backward(retain_graph=True)\n"
        "opt.step()\n",
        ("loss.backward(retain_graph=True)", "loss.backward()"),
        "loss = loss.detach()",
        path=("loss", "graph"),
        made_by=2,
        after="opt.zero_grad(); (w * 2).exp().sum().backward(); opt.step()\n"
        "told = float(w.sum()), float(loss)",
    ),
    Scenario(
        "a loss after backward(retain_graph=True)",
        "retained_graph",
        "autograd_graph",
        _WEIGHT + "# %%\nloss = probe(w.exp()).sum()\nloss.backward(retain_graph=True)\n",
        ("loss.backward(retain_graph=True)", "loss.backward()"),
        "loss = loss.detach()",
        path=("loss", "graph", "ExpBackward0"),
        made_by=2,
        target="everything",
        cost=("another backward() through loss",),
        after="told = float(w.grad.sum()), float(loss)",
    ),
    Scenario(
        "a running total",
        "retained_graph",
        "autograd_graph",
        _WEIGHT + "total = 0\n# %%\n"
        "for step in range(3):\n"
        "    total += probe((w + step).exp()).sum()\n" + _AGED,
        (
            "    total += probe((w + step).exp()).sum()",
            "    total += probe((w + step).exp()).sum().item()",
        ),
        "total = total.detach()",
        path=("total", "graph", "ExpBackward0"),
        made_by=2,
        bytes=3 * MIB,
        cost=("backward()",),
        target="leak",
        after="told = float(total)",
    ),
    Scenario(
        "a model that keeps its last output",
        "retained_graph",
        "module_attribute",
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = nn.Parameter(torch.ones(2**18))
            def forward(self, x):
                out = probe((self.weight + x).exp()).sum()
                self.last = out
                return out.item()
        # %%
        model = Net()
        first = model(1)
        # %%
        number = 1
        # %%
        number += 1
        """,
        ("        self.last = out", "        self.last = out.detach()"),
        "model.last = model.last.detach()",
        path=("model.last", "graph", "ExpBackward0"),
        made_by=2,
        cost=("backward()",),
        target="leak",
        after="told = [first, float(model.last), model(2)]",
    ),
    Scenario(
        "a model that keeps the loss of its last step",
        "retained_graph",
        "module_attribute",
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = nn.Parameter(torch.ones(2**18))
                self.loss = None
            def forward(self):
                self.loss = probe((self.weight * self.weight).exp()).sum()
                return self.loss
        model = Net()
        opt = torch.optim.SGD(model.parameters(), lr=0.125)
        # %%
        model().backward(retain_graph=True)
        opt.step()
        """,
        ("model().backward(retain_graph=True)", "model().backward()"),
        "model.loss = model.loss.detach()",
        path=("model.loss", "graph", "ExpBackward0"),
        made_by=2,
        after="opt.zero_grad(); model().backward(); opt.step(); told = float(model.weight.sum())",
    ),
    Scenario(
        "the hidden state of a recurrent net",
        "retained_graph",
        "autograd_graph",
        """
        w = torch.ones(2**18, requires_grad=True)
        opt = torch.optim.SGD([w], lr=0.125)
        h = torch.ones(2**18)
        # %%
        for step in range(3):
            h = (probe(h) * w).tanh()
        h.sum().backward(retain_graph=True)
        opt.step()
        h.requires_grad_();
        """,
        ("h.requires_grad_();", "h = h.detach()"),
        "h = h.detach()",
        path=("h", "graph"),
        made_by=2,
        bytes=3 * MIB,
        after="told = float((h * w).tanh().sum())",
    ),
    Scenario(
        "the last loss of a loop whose model is gone",
        "retained_graph",
        "autograd_graph",
        _TRAINED + "# %%\n"
        "for step in range(3):\n"
        "    loss = train(step)\n"
        "probe(net.weight, net.weight.grad);\n"
        "# %%\n"
        "del opt, train\n"
        "del net\n",
        ("del net", "net.weight.grad = None"),
        "loss = loss.detach()",
        path=("loss", "graph", "AccumulateGrad"),
        made_by=None,
        bytes=2 * MIB,
        after="told = float(loss)",
    ),
    Scenario(
        "losses of a loop in a list, their model gone",
        "retained_graph",
        "container",
        _TRAINED + "losses = []\n# %%\n"
        "for step in range(3):\n"
        "    losses.append(train(step))\n"
        "probe(net.weight, net.weight.grad);\n"
        "# %%\n"
        "del opt, train\n"
        "del net\n",
        ("    losses.append(train(step))", "    losses.append(train(step).item())"),
        "losses = [loss.detach() for loss in losses]",
        path=("losses", "graph", "AccumulateGrad"),
        made_by=None,
        bytes=2 * MIB,
        after="told = [float(loss) for loss in losses]",
    ),
    Scenario(
        "what a Function put on its context",
        "retained_graph",
        "autograd_graph",
        """
        class Masked(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.mask = probe(x.detach() > 0)
                ctx.save_for_backward(x)
                return x.exp()
            @staticmethod
            def backward(ctx, gradient):
                (x,) = ctx.saved_tensors
                return gradient * x.exp() * ctx.mask
        w = torch.ones(2**20, requires_grad=True)
        # %%
        loss = Masked.apply(w).sum()
        loss.backward()
        """,
        ("        ctx.mask = probe(x.detach() > 0)", "        ctx.mask = 1"),
        "loss = loss.detach()",
        path=("loss", "graph", "MaskedBackward"),
        made_by=2,
        after="told = float(loss), float(w.grad.sum())",
    ),
    Scenario(
        "a model on the context of a checkpoint",
        "retained_graph",
        "autograd_graph",
        """
        from torch.utils.checkpoint import checkpoint
        net = nn.Linear(512, 512, bias=False)
        probe(net)
        x = torch.ones(2, 512, requires_grad=True)
        # %%
        loss = checkpoint(net, x, use_reentrant=True, preserve_rng_state=False).sum()
        loss.backward()
        probe(net.weight.grad)
        del net
        """,
        ("del net", "x.grad = None"),
        "loss = loss.detach()",
        path=("loss", "graph", "CheckpointFunctionBackward"),
        made_by=None,
        bytes=2 * MIB,
        after="told = list(loss.shape), x.requires_grad",
    ),
    Scenario(
        "the first of two losses over one trunk",
        "retained_graph",
        "autograd_graph",
        """
        w, v = (torch.ones(2**18, requires_grad=True) for _ in range(2))
        # %%
        trunk = probe(w.exp())
        first, second = (probe((trunk * v).exp()) * v).sum(), trunk.sin().sum()
        second.backward()
        del trunk, second
        """,
        ("second.backward()", "(first + second).backward()"),
        "first = first.detach()",
        path=("first", "graph"),
        made_by=2,
        bytes=2 * MIB,
        target="everything",
        cost=("gradients through the rest of first",),
        after="told = float(first), float(w.grad.sum())",
    ),
    Scenario(
        "a bare node of a graph",
        "retained_graph",
        "autograd_graph",
        _WEIGHT + "# %%\nloss = probe(w.exp()).sum()\nnode = loss.grad_fn\ndel loss\n" + _AGED,
        ("node = loss.grad_fn", "node = loss.grad_fn.name()"),
        "del node",
        path=("node", "ExpBackward0"),
        made_by=2,
        target="found",
    ),
)

CYCLES = (
    Scenario(
        "backward with create_graph",
        "autograd_cycle",
        "autograd_graph",
        """
        def penalty():
            w = probe(torch.ones(2**18, requires_grad=True))
            probe(w.exp()).sum().backward(create_graph=True)
            return float(probe(w.grad).sum())
        # %%
        size = penalty()
        """,
        (
            "    probe(w.exp()).sum().backward(create_graph=True)",
            "    probe(w.exp()).sum().backward(create_graph=False)",
        ),
        "forget_hooks()",
        made_by=2,
        bytes=3 * MIB + 4,
        after="told = size",
    ),
    Scenario(
        "a hook of a tensor that holds the tensor",
        "autograd_cycle",
        "hook",
        """
        def scale():
            w = probe(torch.ones(2**18, requires_grad=True))
            out = probe(w.exp())
            out.register_hook(lambda gradient: out * gradient)
            return float(out.sum())
        # %%
        size = scale()
        """,
        (
            "    out.register_hook(lambda gradient: out * gradient)",
            "    out.register_hook(lambda gradient: 2 * gradient)",
        ),
        "forget_hooks()",
        made_by=2,
        bytes=2 * MIB,
        after="told = size",
    ),
    Scenario(
        "a hook of the last result of several, which holds it",
        "autograd_cycle",
        "hook",
        """
        def scale():
            w = probe(torch.ones(2**18, requires_grad=True))
            out = w
            for _ in range(4):
                out = probe(out.sin())
            out.register_hook(lambda gradient: out * gradient)
            return float(out.sum())
        # %%
        size = scale()
        """,
        (
            "    out.register_hook(lambda gradient: out * gradient)",
            "    out.register_hook(lambda gradient: 2 * gradient)",
        ),
        "forget_hooks()",
        made_by=2,
        bytes=5 * MIB,
        after="told = size",
    ),
    Scenario(
        "an output noted in its own graph",
        "autograd_cycle",
        "autograd_graph",
        """
        def mark():
            w = probe(torch.ones(2**18, requires_grad=True))
            out = probe(w.exp())
            out.grad_fn.metadata["out"] = out
            return float(out.sum())
        # %%
        size = mark()
        """,
        (
            '    out.grad_fn.metadata["out"] = out',
            '    out.grad_fn.metadata["out"] = out.shape',
        ),
        "forget_hooks()",
        made_by=2,
        bytes=2 * MIB,
        after="told = size",
    ),
    Scenario(
        "a function's context that holds its output",
        "unreachable",
        "garbage",
        """
        import gc; gc.collect(); gc.disable()
        class Exp(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                out = probe(x.exp())
                ctx.out = out
                return out
            @staticmethod
            def backward(ctx, gradient):
                return gradient * ctx.out
        def run():
            return float(Exp.apply(probe(torch.ones(2**18, requires_grad=True))).sum())
        # %%
        size = run()
        """,
        ("        ctx.out = out", "        ctx.out = out.shape"),
        "gc.enable(); gc.collect();",
        made_by=2,
        bytes=2 * MIB,
        after="told = size",
    ),
)
