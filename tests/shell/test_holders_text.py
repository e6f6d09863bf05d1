"""What `%gpumem holders` prints of real scenes: all of it, as a user gets it."""

from __future__ import annotations

from pathlib import Path

import pytest

DATA = Path(__file__).parents[1] / "data"
FEATS = (
    "feats = torch.ones(2**18)\n"
    "def train(batch):\n    acts = [batch]\n    raise ValueError('late')",
    "[1, 2, feats]",
    "train(feats)",
)
MODEL = (
    "class Net(torch.nn.Module):\n"
    "    def __init__(self):\n"
    "        super().__init__()\n"
    "        self.body = torch.nn.Linear(512, 512, bias=False)\n"
    "        self.head = torch.nn.Linear(512, 256)\n"
    "model = Net()\n"
    "def watch(layer):\n"
    "    acts = []\n"
    "    layer.register_forward_hook(lambda module, inputs, out: acts.append(module.weight))\n"
    "watch(model.head)",
    "cache = {'old': model.body.weight}\nwith torch.no_grad():\n    model.head(torch.ones(2, 512))",
)
GATHERED = (
    "net = torch.nn.Linear(16, 512)\n"
    "def watch(layer):\n"
    "    acts = []\n"
    "    def keep(module, inputs, output): acts.append(output.detach())\n"
    "    layer.register_forward_hook(keep)\n"
    "watch(net)",
    "with torch.no_grad(): net(torch.ones(512, 16));",
)
SCENES = {
    "holders": (FEATS, "holders feats"),
    "holders_of_model": (MODEL, "holders model"),
}


def told(notebook, cells, command):
    notebook.run("%gpumem on")
    for cell in cells:
        notebook.run(cell)
    notebook.shell.shown.clear()
    notebook.run(f"%gpumem {command}")
    return notebook.shell.shown[-1]["data"]["text/plain"]


@pytest.mark.parametrize("name", SCENES)
def test_it_prints_what_frees_and_what_that_costs(notebook, name, capsys):
    assert (DATA / f"{name}.txt").read_text("utf-8").rstrip("\n") == told(notebook, *SCENES[name])


def test_what_a_hook_gathered_is_emptied_or_goes_with_the_hook(notebook, capsys):
    text = told(notebook, GATHERED, "leaks")
    assert (
        "   free   %gpumem reclaim \"hook 'keep' on net → list 'acts'\"\n"
        "   or     %gpumem reclaim \"hook 'keep' on net\"\n"
        "   costs  what the hook 'keep' on net → list 'acts' has collected\n"
        "   The second line removes the hook 'keep' on net too.\n"
    ) in text
    assert "the hook fills it\n   again with each call, until it is removed." in text
