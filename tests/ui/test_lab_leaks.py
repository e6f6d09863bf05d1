"""The Leaks page in JupyterLab: what a user sees and presses, and what torch says of the bytes."""

from __future__ import annotations

from lab_page import LONG, RUN, expect, row, rows, table

LOAD = "import torch, weakref\nfrom torch.multiprocessing.reductions import StorageWeakRef\n"
LOAD += "%load_ext nbmem\nsee = []"
SHOW = "%gpumem panel"
FAIL = """def train():
    acts = torch.ones(16 * 1024 * 1024)
    see.append(StorageWeakRef(acts.untyped_storage()))
    raise ValueError("shapes differ")
train()"""
LOSSES = """def collect(steps):
    losses = []
    for _ in range(steps):
        batch = torch.randn(1024, 1024)
        see.append(StorageWeakRef(batch.untyped_storage()))
        losses.append(model(batch).mean())
    return losses
model = torch.nn.Linear(1024, 16)
losses = collect(4)
numbers = [float(loss) for loss in losses]"""
ALIVE = "[not each.expired() for each in see]"
HOSTILE = "<img src=x onerror=alert(1)>"


HALVES = """(button) => {
  window.nbmemHalves = [];
  const look = () => {
    const text = button.innerText;
    if (button.disabled !== (text === 'Free…')) window.nbmemHalves.push(text);
  };
  new MutationObserver(look).observe(button, {attributes: true, childList: true});
}"""
"""Keeps what a button says while it can't be pressed with that, or should not."""


def opened(notebook, *cells, plain=False):
    hide = "\nimport sys; sys.modules['anywidget'] = None" if plain else ""
    book = notebook(LOAD + hide, SHOW, *cells)
    book.run(0, 1, *range(2, 2 + len(cells)))
    panel = book.panel(1)
    panel.get_by_role("button", name="Leaks", exact=True).click()
    return book, panel


def answer(panel):
    return panel.get_by_role("status").filter(has_text="Freed")


def test_the_tensors_of_a_failed_cell_come_back_after_the_plan_was_confirmed(notebook):
    book, panel = opened(notebook, FAIL)
    expect(panel.get_by_role("button", name="Leaks · 1 · 64.0 MiB")).to_be_visible()
    leak = row(panel, "Leaks", "traceback of cell [3]")
    expect(leak).to_contain_text("64.0")
    expect(leak).to_contain_text("[3]")
    leak.click()
    expect(panel).to_contain_text("%debug")
    panel.get_by_role("button", name="Free 64.0 MiB…", exact=True).click()
    expect(panel).to_contain_text("To be freed")
    expect(panel.get_by_role("listitem").filter(has_text="%debug")).to_be_visible()
    assert "[True]" == book.ask(ALIVE)
    panel.get_by_role("button", name="Free 64.0 MiB", exact=True).click()
    expect(answer(panel)).to_contain_text("Freed 64.0 MiB (")
    expect(answer(panel)).to_contain_text("%debug for the error of [3] is gone.")
    assert "[False]" == book.ask(ALIVE)
    expect(panel.get_by_role("button", name="Leaks · none")).to_be_visible()
    assert [] == book.errors


def test_the_keyboard_stays_in_the_section_when_its_button_is_gone(notebook):
    book, panel = opened(notebook, FAIL)
    panel.get_by_role("button", name="Free…", exact=True).evaluate(HALVES)
    row(panel, "Leaks", "traceback of cell [3]").click()
    focused = (
        "document.activeElement.getAttribute('aria-label') || document.activeElement.innerText"
    )
    plan = panel.get_by_role("button", name="Free 64.0 MiB…", exact=True)
    expect(plan).to_be_enabled()
    assert [] == book.page.evaluate("() => window.nbmemHalves")
    plan.press("Enter")
    expect(panel).to_contain_text("To be freed")
    assert "Free 64.0 MiB…" == book.page.evaluate(focused)
    panel.get_by_role("button", name="Free 64.0 MiB", exact=True).press("Enter")
    expect(answer(panel)).to_contain_text("Freed 64.0 MiB (")
    expect(panel.get_by_role("button", name="Leaks · none")).to_be_focused()  # no table is left
    panel.get_by_role("button", name="gc.collect()", exact=True).press("Enter")
    expect(panel.locator(".nbmem-section :focus")).to_have_count(1)
    assert [] == book.errors


def test_a_list_of_losses_keeps_its_numbers(notebook):
    book, panel = opened(notebook, LOSSES, "pass")
    leak = row(panel, "Leaks", "losses")
    expect(leak).to_contain_text("16.0")
    leak.click()
    panel.get_by_role("button", name="Free 16.0 MiB").click()
    confirm = panel.get_by_role("button", name="Free 16.0 MiB", exact=True)
    expect(confirm.or_(answer(panel)).first).to_be_visible()
    if confirm.count():
        confirm.click()
    expect(answer(panel)).to_contain_text("Freed 16.0 MiB")
    assert "[False, False, False, False]" == book.ask(ALIVE)
    assert "True" == book.ask("[float(loss) for loss in losses] == numbers")
    assert "True" == book.ask("type(losses) is list and all(loss.shape == () for loss in losses)")
    assert [] == book.errors


def test_core_widgets_show_and_free_the_same(notebook):
    book, panel = opened(notebook, FAIL, plain=True)
    chosen = panel.locator("select[title^='Leaks']")
    expect(chosen).to_contain_text("traceback of cell [3]")
    chosen.select_option(index=0)
    panel.get_by_role("button", name="Free 64.0 MiB…", exact=True).click()
    expect(panel.get_by_role("listitem").filter(has_text="%debug")).to_be_visible()
    panel.get_by_role("button", name="Free 64.0 MiB", exact=True).click()
    expect(answer(panel)).to_contain_text("Freed 64.0 MiB (")
    assert "[False]" == book.ask(ALIVE)


def test_a_press_while_a_cell_runs_waits_for_its_end(notebook):
    wait = "import time\nfor _ in range(40):\n    time.sleep(0.1)\nat_end = " + ALIVE
    book, panel = opened(notebook, FAIL, wait)
    row(panel, "Leaks", "traceback of cell [3]").click()
    panel.get_by_role("button", name="Free 64.0 MiB…", exact=True).click()
    confirm = panel.get_by_role("button", name="Free 64.0 MiB", exact=True)
    expect(confirm).to_be_visible()
    book.page.evaluate(RUN, 3)
    expect(panel.get_by_text("cell [5] is running: acts wait for its end").first).to_be_visible()
    confirm.click()
    expect(panel).to_contain_text("waits for cell [5] to end.")
    book.page.wait_for_function("() => window.nbmemRan", timeout=LONG)
    expect(answer(panel)).to_contain_text("Freed 64.0 MiB")
    expect(panel.get_by_text("is running: acts wait for its end")).to_have_count(0)
    assert "[True]" == book.ask("at_end")
    assert "[False]" == book.ask(ALIVE)
    assert [] == book.errors


def test_leaks_are_chosen_and_freed_from_the_keyboard(notebook):
    book, panel = opened(notebook, FAIL)
    grid = table(panel, "Leaks")
    expect(rows(grid)).to_have_count(1)
    grid.focus()
    grid.press("Home")
    grid.press("Space")
    expect(rows(grid).first).to_have_attribute("aria-selected", "true")
    free = panel.get_by_role("button", name="Free 64.0 MiB…", exact=True)
    expect(free).to_be_enabled()
    for _ in range(8):
        book.page.keyboard.press("Tab")
        if free.evaluate("(node) => node === document.activeElement"):
            break
    book.page.keyboard.press("Enter")
    expect(panel).to_contain_text("To be freed")
    assert "[True]" == book.ask(ALIVE)
    assert [] == book.errors


def test_a_hostile_name_is_shown_as_text_and_nothing_is_wider_than_a_sidebar(notebook):
    keep = f"globals()[{HOSTILE!r}] = losses\ndel losses, model"
    book, panel = opened(notebook, LOSSES, keep, "pass")
    leak = rows(table(panel, "Leaks")).first
    expect(leak).to_contain_text("<img")
    leak.click()
    panel.evaluate("(node) => { node.style.width = '250px'; }")
    panel.get_by_role("button", name="Free all…").click()
    expect(panel.get_by_role("listitem").first).to_be_visible()
    expect(panel.locator("img")).to_have_count(0)
    wider = "(node) => node.scrollWidth > node.clientWidth + 1"
    assert panel.evaluate(wider) is False
    assert [] == book.errors


def test_what_holds_a_chosen_tensor_is_told(notebook):
    book, panel = opened(notebook, "feats = torch.ones(1024 * 1024)", "feats")
    row(panel, "Live tensors", "feats").click()
    panel.get_by_role("button", name="held by").click()
    told = panel.get_by_role("region", name="What holds the chosen tensors")
    expect(told).to_contain_text("feats · 4.00 MiB held by")
    expect(told).to_contain_text("Out[4]")
    expect(told).to_contain_text("a value that you can name needs it")
    assert [] == book.errors
