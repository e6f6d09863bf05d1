"""Groups, modules, places and the ledger in JupyterLab, and what torch says of the same bytes."""

from __future__ import annotations

from lab_page import expect, row, rows, table

LOAD = "import torch, weakref\n%load_ext nbmem"
SHOW = "%gpumem panel"
MODEL = """%%gpumem build
model = torch.nn.Sequential(
    torch.nn.Linear(512, 1024), torch.nn.Sequential(torch.nn.Linear(1024, 512, bias=False)))
feats = torch.ones(256 * 1024)
keys = [torch.ones(64 * 1024), torch.ones(64 * 1024)]
see = [weakref.ref(key) for key in keys]"""
TRAIN = "%%gpumem train\nmodel(torch.ones(2, 512)).sum().backward()"


def opened(notebook, *cells):
    book = notebook(LOAD, SHOW, MODEL, *cells)
    book.run(0, 1, 2, *range(3, 3 + len(cells)))
    return book, book.panel(1)


def group_by(panel, words):
    panel.get_by_label("Group Live tensors").select_option(words)


def test_tensors_are_grouped_and_a_group_is_opened_by_its_arrow(notebook):
    book, panel = opened(notebook)
    group_by(panel, "by category")
    grid = table(panel, "Live tensors")
    expect(rows(grid).first).to_contain_text("parameter")
    expect(rows(grid).first).to_contain_text("4.00")  # 2 MiB + 4 KiB + 2 MiB
    expect(rows(grid).first).to_have_attribute("aria-expanded", "false")
    rows(grid).first.locator(".nbmem-twist").click()
    expect(rows(grid).first).to_have_attribute("aria-expanded", "true")
    expect(rows(grid).nth(1)).to_have_attribute("aria-level", "2")
    expect(row(panel, "Live tensors", "model[0].weight").or_(
        row(panel, "Live tensors", "model.0.weight"))).to_be_visible()  # fmt: skip
    expect(rows(grid).first).to_have_attribute("aria-selected", "false")
    assert [] == book.errors


def test_a_group_is_chosen_and_dropped_after_its_plan_was_shown(notebook):
    book, panel = opened(notebook)
    group_by(panel, "by name")
    expect(row(panel, "Live tensors", "keys")).to_have_count(1)  # keys[0] and keys[1] were two
    row(panel, "Live tensors", "keys").click()
    expect(panel).to_contain_text("1 group chosen")
    panel.get_by_role("button", name="del 2 (512 KiB)…", exact=True).click()
    expect(panel.get_by_role("listitem").filter(has_text="keys[0]")).to_be_visible()
    assert "[True, True]" == book.ask("[each() is not None for each in see]")
    assert [] == book.errors


def test_groups_are_opened_and_chosen_from_the_keyboard(notebook):
    book, panel = opened(notebook)
    group_by(panel, "by category")
    grid = table(panel, "Live tensors")
    expect(rows(grid).first).to_contain_text("parameter")
    grid.focus()
    book.page.keyboard.press("ArrowDown")
    book.page.keyboard.press("ArrowRight")
    expect(rows(grid).first).to_have_attribute("aria-expanded", "true")
    book.page.keyboard.press("Space")
    for n in (0, 1, 2, 3):
        expect(rows(grid).nth(n)).to_have_attribute("aria-selected", "true")
    book.page.keyboard.press("ArrowDown")
    book.page.keyboard.press("Space")  # all of the group but this one
    expect(rows(grid).nth(1)).to_have_attribute("aria-selected", "false")
    expect(rows(grid).nth(2)).to_have_attribute("aria-selected", "true")
    expect(panel).to_contain_text("2 chosen")
    book.page.keyboard.press("ArrowUp")
    book.page.keyboard.press("ArrowLeft")
    expect(rows(grid).first).to_have_attribute("aria-expanded", "false")
    expect(book.page.locator(".jp-NotebookPanel:visible .jp-Cell")).to_have_count(3)


def test_a_filter_compares_sizes_and_says_what_it_does_not_know(notebook):
    book, panel = opened(notebook)
    grid = table(panel, "Live tensors")
    box = panel.get_by_label("Filter Live tensors")
    box.fill("size>=1MiB category=user")
    expect(rows(grid)).to_have_count(1)
    expect(rows(grid).first).to_contain_text("feats")
    expect(panel).to_contain_text("1 match “size>=1MiB category=user” of 6")
    box.fill("colour=red")
    expect(grid).to_contain_text("no 'colour' to filter by")
    box.fill("")
    expect(rows(grid)).to_have_count(6)
    assert [] == book.errors


def test_the_kernel_sorts_where_not_all_rows_were_sent(notebook):
    book, panel = opened(notebook, "%%gpumem\nmany = [torch.ones(n + 1) for n in range(600)]")
    grid = table(panel, "Live tensors")
    expect(panel).to_contain_text("106 more")
    header = grid.get_by_role("columnheader", name="name")
    header.get_by_role("button").click()
    expect(header).to_have_attribute("aria-sort", "ascending")
    expect(rows(grid).first).to_contain_text("feats")
    header.get_by_role("button").click()
    expect(header).to_have_attribute("aria-sort", "descending")
    header.get_by_role("button").click()
    expect(header).to_have_attribute("aria-sort", "none")
    expect(rows(grid).first).to_contain_text("weight")
    size = grid.get_by_role("columnheader").filter(has_text="B").get_by_role("button")
    size.click()
    size.click()
    expect(rows(grid).first).to_contain_text("many[0]")  # the smallest was not sent before
    assert [] == book.errors


def test_what_was_asked_is_there_after_the_page_is_reloaded(notebook):
    book, panel = opened(notebook)
    group_by(panel, "by category")
    panel.get_by_label("Filter Live tensors").fill("weight")
    expect(rows(table(panel, "Live tensors"))).to_have_count(1)
    book.saved()
    book.reload()
    panel = book.panel(1)
    expect(rows(table(panel, "Live tensors"))).to_have_count(1)
    expect(panel.get_by_label("Group Live tensors")).to_have_value("category")
    expect(panel.get_by_label("Filter Live tensors")).to_have_value("weight")


def test_a_model_is_looked_into_module_by_module(notebook):
    book, panel = opened(notebook, TRAIN)
    grid = table(panel, "Modules")
    expect(rows(grid).first).to_contain_text("0 ›")  # 2 MiB + 4 KiB and as much of gradients
    expect(rows(grid).first).to_contain_text("4.01")
    expect(rows(grid).nth(1)).to_contain_text("4.00")
    expect(rows(grid).first.get_by_role("img")).to_have_attribute(
        "aria-label", "parameter, gradient"
    )
    rows(grid).nth(1).click()
    crumbs = panel.locator(".nbmem-crumbs")
    expect(crumbs.get_by_role("button", name="1", exact=True)).to_be_visible()
    expect(rows(grid)).to_have_count(1)
    grid.focus()
    book.page.keyboard.press("ArrowDown")
    book.page.keyboard.press("Enter")
    expect(rows(grid).first).to_contain_text("weight")
    crumbs.get_by_role("button", name="all modules").click()
    expect(rows(grid).first).to_contain_text("model ›")
    expect(row(panel, "Modules", "(no module)")).to_be_visible()
    assert [] == book.errors


def test_the_ledger_is_taken_when_opened_and_follows(notebook):
    more = "more = torch.ones(1024 * 1024)"
    book, panel = opened(notebook, "%%gpumem\npass")
    expect(panel).not_to_contain_text("Ledger of cpu")
    title = panel.get_by_role("button", name="Ledger", exact=True)
    title.press("Enter")
    expect(panel).to_contain_text("Ledger of cpu")
    expect(panel).to_contain_text("closes")
    torch_says = "sum(p.untyped_storage().nbytes() for p in [*model.parameters(), feats, *keys])"
    exact = f"{int(book.ask(torch_says)):,} B"
    expect(panel.locator(f"[title^='{exact}']").first).to_be_visible()
    assert "1" == book.ask(f"exec({more!r}) or 1")
    panel.get_by_role("button", name="⟳").click()
    exact = f"{int(book.ask(torch_says)) + 4 * 1024 * 1024:,} B"
    expect(panel.locator(f"[title^='{exact}']").first).to_be_visible()
    book.saved()
    expect(book.output(1).locator(".nbmem-copy")).to_contain_text("Ledger of cpu")
    title.press("Enter")
    expect(panel.get_by_text("Ledger of cpu")).to_be_hidden()
    assert [] == book.errors


def test_where_tensors_are_is_read_in_one_look(notebook):
    book, panel = opened(notebook)
    places = panel.get_by_role("table")
    expect(places.get_by_role("row", name="P parameter")).to_contain_text("4.0")
    expect(places.get_by_role("row", name="U user")).to_contain_text("1.5")
    expect(places.get_by_role("row", name="all")).to_contain_text("5.5")
    assert [] == book.errors


def test_sections_close_and_open_by_their_titles(notebook):
    book, panel = opened(notebook)
    panel.get_by_role("button", name="History").click()
    expect(panel.locator(".nbmem-chart")).to_be_hidden()
    book.page.set_viewport_size({"width": 640, "height": 1100})
    panel.evaluate("(node) => { node.style.width = '250px'; }")
    panel.get_by_role("button", name="History").click()
    expect(panel.locator(".nbmem-chart .bk-Canvas").first).to_be_visible()
    book.wait_for_charts("chart.width > 150 && chart.width < 220")
    assert [] == book.errors
