"""What is done in the sidebar, and how it looks narrow, wide and dark."""

from __future__ import annotations

from sidebar_page import FEATS, LOAD, LONG, expect, row, rows, table

WIDTH = """(width) => {
  const panel = document.querySelector('#nbmem-panel');
  const split = panel.closest('.lm-SplitPanel');
  const total = split.clientWidth;
  const lab = window.jupyterapp.shell;
  lab._hsplitPanel.setRelativeSizes([0, total - width, width]);
  return 0;
}"""

TOO_WIDE = """(root) => {
  const box = root.getBoundingClientRect();
  return [...root.querySelectorAll('*')]
    .filter((node) => node.checkVisibility() && node.getBoundingClientRect().right > box.right + 1)
    .filter((node) => !node.closest('.nbmem-chart'))
    .map((node) => `${node.tagName}.${node.className}`)
    .slice(0, 5);
}"""


def test_a_chosen_storage_is_freed_and_its_bytes_fall(book):
    it = book(LOAD, FEATS)
    it.run(0, 1)
    bar = it.page.get_by_role("button", name="Device memory:")
    expect(bar).to_contain_text("16.0 MiB")
    row(it.docked, "Live tensors", "feats").click()
    it.docked.get_by_role("button", name="del feats (16.0 MiB)", exact=True).click()
    expect(it.docked).to_contain_text("Freed 16.0 MiB (16.0 → 0 MiB, torch storages on cpu).")
    assert "(None, False)" == it.ask("(see(), 'feats' in globals())")
    expect(row(it.docked, "Live tensors", "feats")).to_have_count(0)
    expect(bar).not_to_contain_text("16.0")


def test_a_leak_is_reclaimed_after_its_plan(book):
    fail = (
        "def train():\n    acts = torch.ones(4 * 1024 * 1024)\n    global see\n"
        "    see = weakref.ref(acts)\n    raise ValueError('no')\ntrain()"
    )
    it = book(LOAD, fail)
    it.run(0, 1)
    assert "False" == it.ask("see() is None")
    it.docked.get_by_role("button", name="Leaks", exact=True).click()
    row(it.docked, "Leaks", "traceback of").click()
    it.docked.get_by_role("button", name="Free 16.0 MiB…", exact=True).click()
    it.docked.get_by_role("button", name="Free 16.0 MiB", exact=True).click()
    expect(it.docked).to_contain_text("Freed 16.0 MiB (")
    assert "True" == it.ask("see() is None")


def test_the_sidebar_is_usable_from_250_to_1000_pixels_and_in_the_main_area(book):
    it = book(LOAD, FEATS)
    it.page.set_viewport_size({"width": 1500, "height": 1000})
    it.run(0, 1)
    it.wait_for_bars(["[2]"])
    for width in (250, 1000):
        it.page.evaluate(WIDTH, width)
        it.wait_for_charts(f"chart.width > {width * 0.4} && chart.width < {width}")
        expect(row(it.docked, "Live tensors", "feats")).to_contain_text("16.0")
        assert [] == it.sidebar.evaluate(TOO_WIDE)
    it.page.evaluate(WIDTH, 350)
    it.press("Open in main area")
    tab = it.page.locator("#nbmem-tab")
    expect(row(tab, "Live tensors", "feats")).to_contain_text("16.0")
    it.wait_for_bars(["[2]"], charts=2)
    it.page.evaluate("() => { window.jupyterapp.shell.currentWidget.close(); return 0; }")
    expect(tab).to_have_count(0)


def test_a_hostile_name_stays_text_everywhere(book):
    hostile = "<img src=x onerror=alert(1)>"
    it = book(LOAD, f"%%gpumem {hostile}\nglobals()[{hostile!r}] = torch.ones(1024 * 1024)")
    it.run(0, 1)
    expect(rows(table(it.docked, "Live tensors")).first).to_contain_text("<img")
    expect(row(it.docked, "Cells", "[2]")).to_contain_text("onerror")
    expect(it.page.get_by_role("button", name=f"[2] {hostile}")).to_be_visible()
    it.restart()
    it.says("Past: what the kernel last showed before its restart")
    expect(it.sidebar).to_contain_text("<img")
    expect(it.page.locator("img[src=x]")).to_have_count(0)


def test_the_sidebar_is_dark_where_jupyterlab_is(book):
    it = book(LOAD, FEATS)
    it.run(0, 1)
    expect(row(it.docked, "Live tensors", "feats")).to_be_visible()
    bright = "(text) => text.match(/[\\d.]+/g).slice(0, 3).reduce((a, b) => a + Number(b), 0) / 3"
    ground = """(node) => {
      for (let each = node; each; each = each.parentElement) {
        const colour = getComputedStyle(each).backgroundColor;
        if (!/, 0\\)$/.test(colour)) return colour;
      }
    }"""
    for theme, light in (("JupyterLab Dark", "false"), ("JupyterLab Light", "true")):
        it.page.evaluate(
            "(theme) => { window.jupyterapp.commands.execute('apputils:change-theme', {theme});"
            " return 0; }",
            theme,
        )
        it.page.wait_for_function(
            f"() => document.body.dataset.jpThemeLight === '{light}'", timeout=LONG
        )
        expect(it.page.locator("#jupyterlab-splash")).to_have_count(0)
        it.wait_for_charts(f"({bright})(chart.ink) {'>' if light == 'false' else '<'} 128")
        title = it.sidebar.get_by_text(it.path.name).first
        ink = it.page.evaluate(bright, title.evaluate("(node) => getComputedStyle(node).color"))
        paper = it.page.evaluate(bright, title.evaluate(ground))
        assert (light == "false") == (ink > paper)
        assert 90 < abs(ink - paper)
