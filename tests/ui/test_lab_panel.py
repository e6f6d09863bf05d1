"""What a user sees and does in JupyterLab; what really happened is asked of torch and weakrefs."""

from __future__ import annotations

import nbformat
from lab_page import LONG, expect, row, rows, table

LOAD = "import torch, weakref\n%load_ext nbmem"
SHOW = "%gpumem panel"
FEATS = "%%gpumem make feats\nfeats = torch.ones(4 * 1024 * 1024)\nsee = weakref.ref(feats)"


def test_a_cell_measured_later_appears_as_a_bar_and_a_row(notebook):
    book = notebook(LOAD, SHOW, FEATS)
    book.run(0, 1)
    panel = book.panel(1)
    expect(panel).to_contain_text("Run a cell with %%gpumem, or switch on %gpumem on")
    book.run(2)
    (chart,) = book.wait_for_bars(["[3]"])
    assert "MiB" == chart["unit"]
    assert [16.0] == chart["columns"]["user"]
    assert [16.0] == chart["columns"]["peak"]
    assert chart["capacity"] is False
    cell = row(panel, "Cells", "make feats")
    expect(cell).to_contain_text("[3]")
    expect(cell).to_contain_text("+16.0")
    expect(row(panel, "Live tensors", "feats")).to_contain_text("16.0")
    assert [] == book.errors


def test_del_frees_the_chosen_row_and_says_so(notebook):
    book = notebook(LOAD, SHOW, FEATS)
    book.run(0, 1, 2)
    panel = book.panel(1)
    press = panel.get_by_role("button", name="del")
    expect(press).to_be_disabled()
    row(panel, "Live tensors", "feats").click()
    press = panel.get_by_role("button", name="del feats (16.0 MiB)", exact=True)
    press.click()
    expect(panel.get_by_role("status").filter(has_text="Freed")).to_contain_text(
        "Freed 16.0 MiB (16.0 → 0 MiB, torch storages on cpu)."
    )
    assert "(None, False)" == book.ask("(see(), 'feats' in globals())")
    expect(row(panel, "Live tensors", "feats")).to_have_count(0)
    expect(panel.get_by_role("button", name="del", exact=True)).to_be_disabled()
    assert [] == book.errors


def test_what_costs_more_than_a_variable_shows_its_plan_first(notebook):
    book = notebook(LOAD, SHOW, FEATS, "feats", "%%gpumem\nother = torch.ones(1024 * 1024)")
    book.run(0, 1, 2, 3, 4)
    panel = book.panel(1)
    row(panel, "Live tensors", "feats").click()
    row(panel, "Live tensors", "other").click()
    panel.get_by_role("button", name="del 2 (20.0 MiB)…", exact=True).click()
    for line in ("del feats", "del other", "drop Out[4]"):
        expect(panel.get_by_role("listitem").filter(has_text=line)).to_be_visible()
    assert "True" == book.ask("see() is not None and 'other' in globals()")
    panel.get_by_role("button", name="Keep all").click()
    expect(panel.get_by_role("listitem")).to_have_count(0)
    panel.get_by_role("button", name="del 2 (20.0 MiB)…", exact=True).click()
    panel.get_by_role("button", name="del 2 (20.0 MiB)", exact=True).click()
    expect(panel.get_by_role("status").filter(has_text="Freed 20.0 MiB")).to_be_visible()
    assert "None" == book.ask("see()")


def test_a_reloaded_page_shows_the_present(notebook):
    book = notebook(LOAD, SHOW, FEATS, "%%gpumem\nmore = torch.ones(1024 * 1024)")
    book.run(0, 1, 2)
    book.wait_for_bars(["[3]"])
    book.saved()
    book.run(3)
    book.wait_for_bars(["[3]", "[4]"])
    book.reload()
    (chart,) = book.wait_for_bars(["[3]", "[4]"])
    assert [16, 20] == chart["columns"]["user"]
    panel = book.panel(1)
    expect(rows(table(panel, "Cells"))).to_have_count(2)
    expect(row(panel, "Live tensors", "more")).to_contain_text("4.0")
    assert [] == book.errors


def test_the_bars_show_all_that_is_alive_or_only_what_the_cell_made(notebook):
    book = notebook(LOAD, SHOW, FEATS, "%%gpumem\nmore = torch.ones(1024 * 1024)")
    book.run(0, 1, 2, 3)
    (chart,) = book.wait_for_bars(["[3]", "[4]"])
    assert [16, 20] == chart["columns"]["user"]
    assert [0, 0] == chart["columns"]["rest"]
    panel = book.panel(1)
    panel.locator("select[title='Bars show']").select_option("bars: what the cell made")
    (chart,) = book.wait_for_charts("chart.columns.user[1] === 4")
    assert [16, 4] == chart["columns"]["user"]
    assert [0, 16] == chart["columns"]["rest"]
    expect(panel).to_contain_text("older than the cell")
    row(panel, "Cells", "more = torch").click()
    expect(panel).to_contain_text("at its end user 4.00 MiB, older than the cell 16.0 MiB")
    assert [] == book.errors


def test_a_long_history_shows_its_newest_cells(notebook):
    blocks = (
        "import nbmem\nfor n in range(150):\n"
        "    code = '\\n' * n + 'with nbmem.measure(f\"block {n}\", scan=False): pass'\n"
        "    exec(compile(code, 'blocks', 'exec'))"
    )
    book = notebook(LOAD, SHOW, FEATS, blocks)
    book.run(0, 1, 2)
    book.wait_for_bars(["[3]"])
    book.run(3)
    (chart,) = book.wait_for_charts("chart.columns.x.length === 151")
    start, end = chart["range"]
    assert 150 < end < 151
    assert 0 < start < 150
    assert 150 == chart["ticks"][-1]
    assert 8 <= end - start <= chart["width"] / 5
    expect(row(book.panel(1), "Cells", "block 149")).to_be_visible()
    assert [] == book.errors


def test_a_bar_and_its_row_are_chosen_together(notebook):
    book = notebook(LOAD, SHOW, FEATS, "%%gpumem\nmore = torch.ones(1024 * 1024)")
    book.run(0, 1, 2, 3)
    book.wait_for_bars(["[3]", "[4]"])
    panel = book.panel(1)
    row(panel, "Cells", "make feats").click()
    expect(panel).to_contain_text("[3] make feats · ok")
    book.wait_for_charts("chart.selected.join() === '0'")
    drawn = panel.locator(".nbmem-chart .bk-Canvas").first
    drawn.scroll_into_view_if_needed()
    canvas = drawn.bounding_box()
    second = 1.5 / 8  # room for eight bars at least
    book.page.mouse.click(
        canvas["x"] + 50 + second * (canvas["width"] - 50), canvas["y"] + canvas["height"] - 40
    )
    expect(row(panel, "Cells", "more = torch")).to_have_attribute("aria-selected", "true")
    expect(row(panel, "Cells", "make feats")).to_have_attribute("aria-selected", "false")


def test_the_tables_work_from_the_keyboard_without_touching_the_notebook(notebook):
    make = "%%gpumem\n" + "\n".join(f"t{n} = torch.ones({n} * 256)" for n in range(1, 31))
    book = notebook(LOAD, SHOW, make)
    book.run(0, 1, 2)
    panel = book.panel(1)
    grid = table(panel, "Live tensors")
    expect(grid).to_have_attribute("aria-rowcount", "31")
    expect(rows(grid).first).to_contain_text("t30")
    assert 20 > rows(grid).count()
    grid.focus()
    for key in ("End", "Space", "ArrowUp", "Space", "d", "d", "x"):
        book.page.keyboard.press(key)
    expect(rows(grid).last).to_have_attribute("aria-selected", "true")
    expect(panel).to_contain_text("2 chosen · t2 · user, float32 [512] on cpu · 2.00 KiB (2,048 B)")
    expect(panel.get_by_role("button", name="del 2 (3.00 KiB)…", exact=True)).to_be_enabled()
    expect(book.page.locator(".jp-NotebookPanel:visible .jp-Cell")).to_have_count(3)
    book.ask("globals().pop('t30')")
    panel.get_by_role("button", name="⟳").click()
    expect(grid).to_have_attribute("aria-rowcount", "30")
    expect(panel).to_contain_text("2 chosen · t2 · user")
    panel.get_by_label("Filter Live tensors").fill("t7")
    expect(rows(grid)).to_have_count(1)
    expect(panel).to_contain_text("1 of 29 shown")
    panel.get_by_label("Filter Live tensors").fill("")
    header = grid.get_by_role("columnheader", name="KiB")
    for order in ("descending", "ascending"):
        header.get_by_role("button").press("Enter")
        expect(header).to_have_attribute("aria-sort", order)
    expect(rows(grid).first).to_contain_text("t1")


def test_a_hostile_name_is_shown_as_text(notebook):
    hostile = "<img src=x onerror=alert(1)>"
    cell = f"%%gpumem {hostile}\nglobals()[{hostile!r}] = torch.ones(1024)"
    book = notebook(LOAD, SHOW, cell)
    book.run(0, 1, 2)
    panel = book.panel(1)
    expect(rows(table(panel, "Live tensors")).first).to_contain_text("<img")
    expect(row(panel, "Cells", "[3]")).to_contain_text("onerror")
    row(panel, "Cells", "[3]").click()
    expect(panel).to_contain_text(f"[3] {hostile} · ok")
    chart = panel.locator(".nbmem-chart .bk-Canvas").first
    chart.hover()  # in the middle: it waits until the chart stands still
    box = chart.bounding_box()
    book.page.mouse.move(box["x"] + 85, box["y"] + box["height"] - 50, steps=4)
    expect(book.page.locator(".bk-Tooltip").filter(has_text="onerror")).to_be_visible()
    rows(table(panel, "Live tensors")).first.click()
    panel.get_by_role("button", name="del").first.click()
    expect(panel.get_by_role("listitem").or_(panel.get_by_text("Freed"))).to_be_visible()
    expect(panel.locator("img")).to_have_count(0)
    assert [] == book.errors


def test_the_panel_is_dark_where_jupyterlab_is(notebook):
    book = notebook(LOAD, SHOW, FEATS)
    book.run(0, 1, 2)
    book.wait_for_bars(["[3]"])
    book.page.evaluate(
        "() => { window.jupyterapp.commands.execute('apputils:change-theme',"
        " {theme: 'JupyterLab Dark'}); return 0; }"
    )
    book.page.wait_for_function(
        "() => document.body.dataset.jpThemeLight === 'false'", timeout=LONG
    )
    bright = "(text) => text.match(/[\\d.]+/g).slice(0, 3).reduce((a, b) => a + Number(b), 0) / 3"
    book.wait_for_charts(f"({bright})(chart.ink) > 160")
    colours = book.page.evaluate(
        """() => {
          const row = document.querySelector('.nbmem-panel [role=rowgroup] [role=row]');
          const header = document.querySelector('.nbmem-panel .nbmem-header');
          return [getComputedStyle(row).color, getComputedStyle(header).backgroundColor];
        }"""
    )
    text, background = (book.page.evaluate(bright, colour) for colour in colours)
    assert text > 160
    assert background < 80
    assert [] == book.errors
    book.page.evaluate(
        "() => { window.jupyterapp.commands.execute('apputils:change-theme',"
        " {theme: 'JupyterLab Light'}); return 0; }"
    )
    book.page.wait_for_function("() => document.body.dataset.jpThemeLight === 'true'", timeout=LONG)


def test_the_saved_notebook_is_small_and_reads_without_its_kernel(notebook):
    book = notebook(LOAD, SHOW, FEATS, SHOW)
    book.run(0, 1, 2, 3)
    book.wait_for_bars(["[3]"], charts=2)
    live = book.output(1).locator(".nbmem-copy")
    expect(live).to_contain_text("make feats")
    expect(live).to_contain_text("float32")
    expect(live).to_be_hidden()
    saved = book.saved()
    assert 60_000 > book.path.stat().st_size
    book.shut_down()
    book.goto(book.path)
    expect(book.output(1).locator(".nbmem-copy")).to_be_visible()
    expect(book.output(1)).to_contain_text("make feats")
    # Elsewhere the file is not trusted: what it holds has no signature there.
    saved.metadata["kernelspec"]["name"] = "no-such-kernel"
    moved = book.path.with_name(f"moved-{book.path.name}")
    nbformat.write(saved, moved)
    book.goto(moved)
    report = book.output(2)
    expect(report).to_contain_text("make feats")
    expect(report).to_contain_text("16.0 MiB")
    copy = book.output(1)
    expect(copy).to_contain_text("the live figures need a running kernel")
    expect(copy).to_contain_text("nbmem panel, as it was at")
    expect(copy.get_by_role("row").filter(has_text="make feats")).to_be_visible()
    expect(copy.get_by_role("row").filter(has_text="float32")).to_contain_text("feats")
    book.page.get_by_role("dialog").get_by_role("button", name="No Kernel").click()


def test_a_restarted_kernel_leaves_the_copy_and_says_what_to_run(notebook):
    book = notebook(LOAD, SHOW, FEATS)
    book.run(0, 1, 2)
    book.wait_for_bars(["[3]"])
    expect(row(book.panel(1), "Live tensors", "feats")).to_be_visible()
    book.restart()
    copy = book.output(1).locator(".nbmem-copy")
    expect(copy.get_by_role("row").filter(has_text="make feats")).to_be_visible()
    expect(book.panel(1).get_by_role("button", name="gc.collect()")).to_be_hidden()
    said = "(node) => getComputedStyle(node, '::before').content"
    assert "`%gpumem panel`" in book.panel(1).evaluate(said)
    book.run(0, 1, 2)
    expect(row(book.panel(1), "Live tensors", "feats")).to_be_visible()
    expect(copy).to_be_hidden()
    assert [] == book.errors


def test_a_filter_over_more_than_was_sent_says_when_nothing_matches(notebook):
    book = notebook(LOAD, SHOW, "%%gpumem\nmany = [torch.ones(n + 1) for n in range(600)]")
    book.run(0, 1, 2)
    panel = book.panel(1)
    grid = table(panel, "Live tensors")
    expect(panel).to_contain_text("100 more")
    panel.get_by_label("Filter Live tensors").fill("many[3]")
    expect(rows(grid)).to_have_count(1)
    panel.get_by_label("Filter Live tensors").fill("nobody")
    expect(panel).to_contain_text("0 match “nobody” of 600")
    expect(grid).to_contain_text("Nothing matches the filter.")


def test_two_panels_keep_in_step_and_are_usable_when_narrow(notebook):
    book = notebook(LOAD, SHOW, SHOW, FEATS)
    book.run(0, 1, 2, 3)
    book.wait_for_bars(["[4]"], charts=2)
    first, second = book.panel(1), book.panel(2)
    book.page.set_viewport_size({"width": 640, "height": 1100})
    for panel in (first, second):
        panel.evaluate("(node) => { node.style.width = '250px'; }")
    assert 2 == len(book.wait_for_charts("chart.width > 150 && chart.width < 220"))
    expect(row(first, "Live tensors", "feats")).to_be_visible()
    row(first, "Live tensors", "feats").click()
    first.get_by_role("button", name="del feats (16.0 MiB)").click()
    expect(first).to_contain_text("Freed 16.0 MiB")
    expect(row(second, "Live tensors", "feats")).to_have_count(0)
    assert [] == book.errors


def test_an_unloaded_session_says_so_where_its_panel_was(notebook):
    book = notebook(LOAD, SHOW, FEATS, "%unload_ext nbmem")
    book.run(0, 1, 2)
    book.wait_for_bars(["[3]"])
    book.run(3)
    expect(book.output(1)).to_contain_text("nbmem was unloaded here.")
    expect(book.output(1).locator(".nbmem-panel")).to_have_count(0)
    count = "len(__import__('ipywidgets').widgets.widget._instances)"
    assert "0" == book.ask(count)


def test_a_chart_that_can_not_load_says_so_beside_the_table(notebook):
    book = notebook(LOAD, SHOW, FEATS, own_page=True)
    book.page.evaluate(
        """() => {
          const make = URL.createObjectURL;
          URL.createObjectURL = (blob) => {
            if (blob.size > 500_000) throw new Error('forbidden');
            return make.call(URL, blob);
          };
        }"""
    )
    book.run(0, 1, 2)
    panel = book.panel(1)
    expect(panel).to_contain_text("The chart could not load (forbidden)")
    expect(row(panel, "Cells", "make feats")).to_be_visible()
    assert [] == book.errors


def test_a_page_that_can_load_no_widget_of_ours_shows_the_plain_panel(notebook):
    book = notebook(LOAD, SHOW, FEATS, own_page=True)
    book.page.evaluate("() => { URL.createObjectURL = () => { throw new Error('forbidden'); }; }")
    book.run(0, 1, 2)
    panel = book.panel(1)
    expect(panel.locator("table").first).to_contain_text("+16.0")
    panel.locator("select[title^='Live tensors']").select_option(index=0)
    panel.get_by_role("button", name="del feats (16.0 MiB)").click()
    expect(panel).to_contain_text("Freed 16.0 MiB")


def test_a_full_panel_that_was_asked_for_offers_the_plain_one(notebook):
    book = notebook(LOAD, "%config NbMem.panel = 'full'", SHOW, FEATS, own_page=True)
    book.page.evaluate("() => { URL.createObjectURL = () => { throw new Error('forbidden'); }; }")
    book.run(0, 1, 2, 3)
    panel = book.panel(2)
    panel.get_by_role("button", name="Chart or tables missing? Show the plain panel").click()
    expect(panel.locator("table").first).to_contain_text("+16.0")


def test_without_anywidget_core_widgets_show_the_same_figures_and_act(notebook):
    hide = "import sys; sys.modules['anywidget'] = None"
    book = notebook(LOAD + "\n" + hide, SHOW, FEATS)
    book.run(0, 1, 2)
    panel = book.panel(1)
    expect(panel.locator("table").first).to_contain_text("make feats")
    expect(panel.locator("table").first).to_contain_text("+16.0")
    panel.locator("select[title^='Live tensors']").select_option(index=0)
    panel.get_by_role("button", name="del feats (16.0 MiB)").click()
    expect(panel).to_contain_text("Freed 16.0 MiB")
    assert "None" == book.ask("see()")
