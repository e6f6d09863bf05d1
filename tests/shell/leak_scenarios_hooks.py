"""Leaks of hooks on modules and tensors: what they gather while a model runs."""

from __future__ import annotations

from leak_scene import MIB, Scenario

HOOKS = (
    Scenario(
        "activations that a forward hook gathers",
        "forgotten_reference",
        "hook",
        """
        net = nn.Linear(16, 512)
        def watch(model):
            acts = []
            def save(module, inputs, output):
                acts.append(probe(output.detach()))
            model.register_forward_hook(save)
        watch(net)
        # %%
        with torch.no_grad():
            for step in range(2):
                net(torch.ones(512, 16))
        """,
        (
            "        acts.append(probe(output.detach()))",
            "        acts.append(probe(output.detach()).shape)",
        ),
        "next(iter(net._forward_hooks.values())).__closure__[0].cell_contents.clear()",
        path=("hook 'save' on net", "list 'acts'"),
        made_by=2,
        bytes=2 * MIB,
        target="leak",
        after="told = list(net(torch.ones(2, 16)).shape)",
    ),
    Scenario(
        "a hook of a layer in a model",
        "forgotten_reference",
        "hook",
        """
        net = nn.Sequential(nn.Linear(16, 512), nn.ReLU())
        class Recorder:
            def __init__(self):
                self.outputs = {}
            def __call__(self, module, inputs, output):
                self.outputs['relu'] = probe(output.detach())
        net[1].register_forward_hook(Recorder());
        # %%
        with torch.no_grad():
            net(torch.ones(512, 16));
        """,
        (
            "        self.outputs['relu'] = probe(output.detach())",
            "        self.outputs['relu'] = probe(output.detach()).shape",
        ),
        "net[1]._forward_hooks.popitem()[1].outputs.clear()",
        path=("hook", "net.1", "outputs['relu']"),
        made_by=2,
        target="leak",
        after="told = list(net(torch.ones(2, 16)).shape)",
    ),
    Scenario(
        "gradients that a tensor's hook gathers",
        "forgotten_reference",
        "hook",
        """
        w = torch.ones(2**18, requires_grad=True)
        def watch(tensor):
            seen = []
            tensor.register_hook(lambda gradient: seen.append(probe(gradient * 2)))
        watch(w)
        # %%
        (w * 3).sum().backward()
        """,
        (
            "    tensor.register_hook(lambda gradient: seen.append(probe(gradient * 2)))",
            "    tensor.register_hook(lambda gradient: seen.append(probe(gradient * 2).shape))",
        ),
        "w._backward_hooks.popitem()[1].__closure__[0].cell_contents.clear()",
        path=("hook", "w", "'seen'"),
        made_by=2,
        target="leak",
        after="w.grad = None; (w * 2).sum().backward(); told = float(w.grad.sum())",
    ),
    Scenario(
        "gradients that a backward hook gathers",
        "forgotten_reference",
        "hook",
        """
        net = nn.Linear(512, 4)
        def watch(model):
            seen = []
            def save(module, grad_input, grad_output):
                seen.append(probe(grad_input[0] * 1))
            model.register_full_backward_hook(save)
        watch(net)
        # %%
        net(torch.ones(512, 512, requires_grad=True)).sum().backward()
        """,
        (
            "        seen.append(probe(grad_input[0] * 1))",
            "        seen.append(probe(grad_input[0] * 1).shape)",
        ),
        "next(iter(net._backward_hooks.values())).__closure__[0].cell_contents.clear()",
        path=("hook 'save' on net", "list 'seen'"),
        made_by=2,
        target="leak",
        after="told = list(net(torch.ones(2, 512)).shape)",
    ),
    Scenario(
        "a hook of all modules",
        "forgotten_reference",
        "hook",
        """
        def watch():
            acts = []
            def save(module, inputs, output):
                acts.append(probe(output.detach()))
            handle = nn.modules.module.register_module_forward_hook(save)
            later(handle.remove)
        watch()
        net = nn.Linear(16, 512)
        # %%
        with torch.no_grad():
            net(torch.ones(512, 16));
        """,
        (
            "        acts.append(probe(output.detach()))",
            "        acts.append(probe(output.detach()).shape)",
        ),
        "nn.modules.module._global_forward_hooks.clear()",
        path=("hook", "'acts'"),
        made_by=2,
        target="leak",
        after="told = list(net(torch.ones(2, 16)).shape)",
    ),
)
