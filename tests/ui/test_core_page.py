"""What a user sees and does on a page that loads core widgets only, as Colab and Kaggle do."""

from __future__ import annotations

from lab_page import expect

LOAD = "import torch, weakref\n%load_ext nbmem"
SHOW = "%gpumem panel"
FEATS = "%%gpumem make feats\nfeats = torch.ones(4 * 1024 * 1024)\nsee = weakref.ref(feats)"


def test_try(core):
    core.run(LOAD, SHOW, FEATS)
    panel = core.panel(1)
    core.page.screenshot(path="/tmp/corepage/first.png", full_page=True)
    expect(panel).to_contain_text("feats")
    print(core.refused())
    panel.get_by_role("button", name="Chart or tables missing? Show the plain panel").click()
    expect(panel.locator("table").first).to_contain_text("+16.0")
    core.page.screenshot(path="/tmp/corepage/second.png", full_page=True)
