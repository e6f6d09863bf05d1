"""The chart in JupyterLab: zoom by dragging, new cells meanwhile, and bars chosen by keys."""

from __future__ import annotations

from lab_page import expect, row

LOAD = "import torch, nbmem\n%load_ext nbmem"
SHOW = "%gpumem panel"
BLOCKS = """for n in range(40):
    code = '\\n' * n + 'with nbmem.measure(f"block {n}", scan=False): pass'
    exec(compile(code, 'blocks', 'exec'))"""
ONE_MORE = "%%gpumem one more\nmore = torch.ones(1024 * 1024)"
WHOLE = [-0.6, 39.6]


def opened(notebook, *cells):
    """A panel with forty bars, drawn."""
    book = notebook(LOAD, SHOW, BLOCKS, *cells)
    book.run(0, 1, 2)
    book.wait_for_charts("chart.columns.x.length === 40")
    plot = book.panel(1).locator(".nbmem-plot")
    plot.scroll_into_view_if_needed()
    return book, plot


def drag(book, plot, start, end):
    """Drags over parts of the plot's width, once it stands still and nothing lies over it."""
    plot.hover()
    box = plot.bounding_box()
    left, width, y = box["x"] + 50, box["width"] - 50, box["y"] + box["height"] / 2
    book.page.mouse.move(left + start * width, y)
    book.page.mouse.down()
    book.page.mouse.move(left + end * width, y + 5, steps=5)
    book.page.mouse.up()


def ranged(low, high):
    return f"chart.range[0] > {low} && chart.range[1] < {high}"


STOPS = """plot => {
    const stops = [];
    const look = (node) => {
        for (const each of node.querySelectorAll('*')) {
            if (each.tabIndex >= 0) stops.push(each.className);
            if (each.shadowRoot) look(each.shadowRoot);
        }
    };
    look(plot);
    return [plot.tabIndex, plot.getAttribute('role'), stops];
}"""


def test_the_plot_is_one_stop_of_the_tab_key_and_has_a_name(notebook):
    _book, plot = opened(notebook)
    assert [0, "slider", []] == plot.evaluate(STOPS)


def test_dragging_over_cells_zooms_to_them_and_a_button_or_escape_shows_all_again(notebook):
    book, plot = opened(notebook)
    panel = book.panel(1)
    (chart,) = book.charts()
    assert WHOLE == [round(end, 1) for end in chart["range"]]
    expect(panel).to_contain_text("Drag to zoom in.")
    drag(book, plot, 0.25, 0.5)
    (chart,) = book.wait_for_charts(ranged(8, 21))
    assert 8 < chart["range"][1] - chart["range"][0] < 12
    expect(panel).to_contain_text("of 40 cells")
    assert all(chart["range"][0] < tick < chart["range"][1] for tick in chart["ticks"])
    panel.get_by_role("button", name="all", exact=True).click()
    everything = "chart.range[0] < -0.5 && chart.range[1] > 39.5"
    book.wait_for_charts(everything)
    drag(book, plot, 0.25, 0.5)
    book.wait_for_charts(ranged(8, 21))
    row(panel, "Cells", "block 39").click()  # its bar comes into sight
    book.wait_for_charts("chart.range[0] > 20 && chart.range[1] > 39")
    plot.press("Escape")
    book.wait_for_charts(everything)
    assert [] == book.errors


def test_a_new_cell_does_not_throw_back_who_looks_at_older_ones(notebook):
    book, plot = opened(notebook, ONE_MORE, ONE_MORE.replace("more", "another"))
    drag(book, plot, 0.25, 0.5)
    (before,) = book.wait_for_charts(ranged(8, 21))
    book.run(3)
    (after,) = book.wait_for_charts("chart.columns.x.length === 41")
    assert before["range"] == after["range"]
    expect(book.panel(1)).to_contain_text("of 41 cells")
    plot.press("Escape")
    book.wait_for_charts("chart.range[0] < -0.5 && chart.range[1] > 40.5")
    book.run(4)
    book.wait_for_charts("chart.range[0] < -0.5 && chart.range[1] > 41.5")
    assert [] == book.errors


def test_bars_are_chosen_by_arrow_keys_and_enter_asks_for_their_cell(notebook):
    book, plot = opened(notebook, ONE_MORE)
    book.run(3)
    book.wait_for_charts("chart.columns.x.length === 41")
    expect(plot).to_have_attribute("aria-valuetext", "no bar is chosen")
    book.page.evaluate(
        """() => {
          window.nbmemJumps = [];
          document.addEventListener('nbmem-jump', (event) => {
            event.stopImmediatePropagation();
            window.nbmemJumps.push(event.detail);
          }, {capture: true});
        }"""
    )
    flag = "(flag) => { document.body.dataset.nbmemSidebar = flag; }"
    before = book.page.evaluate("() => document.body.dataset.nbmemSidebar ?? null")
    book.page.evaluate("() => { delete document.body.dataset.nbmemSidebar; }")
    plot.focus()
    for key in ("ArrowRight", "ArrowLeft", "ArrowRight", "Enter", "d", "d"):
        book.page.keyboard.press(key)
    panel = book.panel(1)
    expect(row(panel, "Cells", "one more")).to_have_attribute("aria-selected", "true")
    expect(plot).to_have_attribute("aria-valuetext", "[4] one more, peak 4.00 MiB, end 4.00 MiB")
    link = row(panel, "Cells", "one more").get_by_role("button", name="Go to cell [4]")
    expect(link).to_be_hidden()
    assert [] == book.page.evaluate("() => window.nbmemJumps")
    book.page.evaluate(flag, "1")
    plot.press("Enter")
    link.press("Enter")
    number = "window.nbmemJumps.map((place) => place.number)"
    assert [4, 4] == book.page.evaluate(f"() => {number}")
    expect(row(panel, "Cells", "one more")).to_have_attribute("aria-selected", "true")
    ids = book.page.evaluate("() => window.nbmemJumps.map((place) => place.cell_id)")
    cell = "() => window.jupyterapp.shell.currentWidget.content.widgets[3].model.id"
    assert [book.page.evaluate(cell)] * 2 == ids
    book.page.evaluate(flag if before else "() => { delete document.body.dataset.nbmemSidebar; }",
                       before)  # fmt: skip
    assert [] == book.errors
