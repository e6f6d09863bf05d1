"""Leaks of training: gradients nobody steps with, optimizer state, old copies of models."""

from __future__ import annotations

from leak_scene import MIB, Scenario

_TRAINED = """
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 512), nn.Linear(512, 512, bias=False))
opt = torch.optim.Adam(net.parameters(), lr=0.125)
def train():
    opt.zero_grad()
    loss = net(torch.ones(2, 8)).pow(2).sum()
    loss.backward()
    opt.step()
    return float(loss)
# %%
first = train()
"""
_FRESH_STEP = "opt = torch.optim.SGD(net.parameters(), lr=0.125); told = [first, train(), train()]"

TRAINING = (
    Scenario(
        "zero gradients whose optimizer is gone",
        "unused_gradient",
        "tensor_attribute",
        _TRAINED + "# %%\n"
        "opt.zero_grad(set_to_none=False)\nprobe([p.grad for p in net.parameters()])\n"
        "import gc\n"
        "del opt; gc.collect();\n",
        ("del opt; gc.collect();", "gc.collect();"),
        "net.zero_grad()",
        path=("net", "weight.grad"),
        made_by=2,
        target="everything",
        cost=("3 gradients of net",),
        bytes=MIB + 512 * 8 * 4 + 512 * 4,
        lost=("net.0.weight.grad", "net.0.bias.grad", "net.1.weight.grad"),
        after=_FRESH_STEP,
        by_name=True,
    ),
    Scenario(
        "zero gradients of an optimizer that somebody wrote",
        "unused_gradient",
        "tensor_attribute",
        """
        class Descent:
            def __init__(self, params): self.params = list(params)
            def step(self):
                with torch.no_grad():
                    for p in self.params: p -= 0.125 * p.grad
            def zero_grad(self):
                for p in self.params: p.grad.zero_()
        net = nn.Linear(512, 512, bias=False)
        descent = Descent(net.parameters())
        # %%
        net(torch.ones(2, 512)).pow(2).mean().backward()
        descent.step()
        probe(net.weight.grad);
        descent.zero_grad()
        """,
        ("descent.zero_grad()", "number = 1"),
        "net.zero_grad()",
        path=("net.weight.grad",),
        made_by=2,
        target="leak",
        cost=("another step of descent.params",),
        lost=("net.weight.grad", "descent.params.0.grad"),
        after="told = list(net(torch.ones(2, 512)).shape)",
        by_name=True,
    ),
    Scenario(
        "an optimizer and a loss after backward of a model that is gone",
        "stale_optimizer_state",
        "optimizer",
        """
        torch.manual_seed(0); net = nn.Linear(512, 512, bias=False)
        opt = torch.optim.Adam(net.parameters(), lr=0.125)
        # %%
        loss = net(torch.ones(2, 512)).pow(2).mean()
        loss.backward()
        opt.step(); probe(net, net.weight.grad, opt);
        # %%
        del net
        """,
        ("del net", "number = 1"),
        "loss = loss.detach(); del opt",
        path=("opt",),
        made_by=None,
        bytes=4 * MIB + 4,
        leaks=2,
        lost=("opt",),
        after="told = float(loss)",
        by_name=True,
    ),
    Scenario(
        "gradients of frozen parameters",
        "unused_gradient",
        "tensor_attribute",
        _TRAINED.replace("Adam", "SGD") + "# %%\n"
        "probe(net[1].weight.grad)\n"
        "net[1].weight.requires_grad_(False);\n",
        ("net[1].weight.requires_grad_(False);", "net[1].weight.requires_grad_(True);"),
        "net[1].weight.grad = None",
        path=("net", "weight.grad"),
        made_by=2,
        target="leak",
        cost=("another step of opt",),
        lost=("net.1.weight.grad", "opt.groups.0.params.2.grad"),
        after="told = [first, train(), train()]",
        by_name=True,
    ),
    Scenario(
        "Adam's state of a head that was replaced",
        "stale_optimizer_state",
        "optimizer",
        _TRAINED + "# %%\n"
        "probe(net[1].weight, net[1].weight.grad, opt.state[net[1].weight])\n"
        "new = nn.Linear(512, 512, bias=False)\n"
        "net[1] = new\n",
        ("net[1] = new", "net.append(new)"),
        "del opt.state[opt.param_groups[0]['params'].pop()]",
        path=("opt",),
        made_by=None,
        bytes=4 * MIB + 4,
        lost=("opt",),
        after="told = [first, train(), train()]",
        by_name=True,
    ),
    Scenario(
        "Adam's state of a parameter group that left",
        "stale_optimizer_state",
        "optimizer",
        _TRAINED + "# %%\n"
        "weight = net[1].weight; probe(weight, weight.grad, opt.state[weight])\n"
        "opt.param_groups[0]['params'].pop();\n"
        "del net[1]\n"
        "del weight\n",
        ("del net[1]", "weight.grad = None"),
        "opt.state.popitem();",
        path=("opt.state",),
        made_by=None,
        bytes=4 * MIB + 4,
        lost=("opt",),
        after="net.append(nn.Linear(512, 2)); told = [first, train(), train()]",
        by_name=True,
    ),
    Scenario(
        "an optimizer of a model whose cell ran again",
        "stale_optimizer_state",
        "optimizer",
        """
        torch.manual_seed(0); net = globals().get('kept') or nn.Linear(512, 512, bias=False)
        # %%
        opt = torch.optim.Adam(net.parameters(), lr=0.125)
        net(torch.ones(2, 512)).sum().backward()
        opt.step(); probe(net, net.weight.grad, opt)
        kept = None
        # %%
        torch.manual_seed(0); net = globals().get('kept') or nn.Linear(512, 512, bias=False)
        """,
        ("kept = None", "kept = net"),
        "del opt",
        path=("opt",),
        made_by=None,
        bytes=4 * MIB + 4,
        lost=("opt",),
        after="told = float(net(torch.ones(2, 512)).sum())",
        by_name=True,
    ),
    Scenario(
        "an old model in an optimizer that has made no step",
        "stale_copy",
        "optimizer",
        """
        net = globals().get('kept') or nn.Linear(512, 512, bias=False)
        # %%
        opt = torch.optim.SGD(probe(net).parameters(), lr=0.125)
        kept = None
        # %%
        net = globals().get('kept') or nn.Linear(512, 512, bias=False)
        """,
        ("kept = None", "kept = net"),
        "del opt",
        path=("opt",),
        lost=("opt",),
        after="told = list(net(torch.ones(2, 512)).shape)",
        by_name=True,
    ),
    Scenario(
        "an old model in a scheduler",
        "stale_copy",
        "optimizer",
        """
        net = globals().get('kept') or nn.Linear(512, 512, bias=False)
        opt = torch.optim.SGD(net.parameters(), lr=0.125)
        # %%
        sched = torch.optim.lr_scheduler.StepLR(opt, 10); probe(net)
        kept = None
        # %%
        net = globals().get('kept') or nn.Linear(512, 512, bias=False)
        opt = torch.optim.SGD(net.parameters(), lr=0.125)
        """,
        ("kept = None", "kept = net"),
        "import gc\ndel sched; gc.collect();",
        path=("sched",),
        lost=("sched",),
        after="told = list(net(torch.ones(2, 512)).shape)",
        by_name=True,
    ),
    Scenario(
        "an old model that was shown",
        "stale_copy",
        "output_cache",
        """
        net = nn.Linear(512, 512, bias=False)
        net
        # %%
        probe(net);
        number = 1
        # %%
        net = nn.Linear(512, 512, bias=False)
        net
        """,
        ("number = 1", "older = net"),
        "forget_outputs()",
        path=("Out[{1}]",),
        target="everything",
        cost=("Out[{1}]",),
        after="told = list(net(torch.ones(2, 512)).shape)",
    ),
)
