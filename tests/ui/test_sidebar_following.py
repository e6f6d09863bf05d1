"""Whose memory the sidebar shows: the notebook, console or tab that is looked at."""

from __future__ import annotations

from sidebar_page import FEATS, LOAD, expect, row, rows, table

OTHER = "%%gpumem make masks\nmasks = torch.ones(2 * 1024 * 1024)"

WATCH = """([first, second]) => {
  const panel = document.querySelector('#nbmem-panel');
  window.nbmemMixed = [];
  const look = () => {
    const text = panel.innerText;
    const foreign = text.includes(first) ? 'masks' : text.includes(second) ? 'feats' : null;
    if (foreign && text.includes(foreign)) window.nbmemMixed.push(text);
  };
  new MutationObserver(look).observe(panel, {subtree: true, childList: true, characterData: true});
  return 0;
}"""

ACTIVATE = """(path) => {
  const lab = window.jupyterapp;
  lab.commands.execute('docmanager:open', {path});
  return 0;
}"""

SAME_KERNEL = """async (path) => {
  const lab = window.jupyterapp;
  const open = [...lab.shell.widgets('main')];
  const other = open.find((each) => each.context?.path === path);
  const { id } = other.sessionContext.session.kernel;
  await lab.shell.currentWidget.sessionContext.changeKernel({ id });
  return 0;
}"""


def test_the_panel_follows_the_notebook_and_never_shows_another_s_figures(book):
    first = book(LOAD, FEATS)
    first.run(0, 1)
    expect(row(first.docked, "Live tensors", "feats")).to_be_visible()
    second = book(LOAD, OTHER)
    names = first.path.name, second.path.name
    first.page.evaluate(WATCH, names)
    second.says(f"nbmem is not loaded in {second.path.name}")
    second.run(0, 1)
    expect(row(second.docked, "Live tensors", "masks")).to_contain_text("8.0")
    for each, name, size in ((first, "feats", "16.0"), (second, "masks", "8.0")) * 2:
        each.page.evaluate(ACTIVATE, each.path.name)
        expect(row(each.docked, "Live tensors", name)).to_contain_text(size)
        expect(rows(table(each.docked, "Cells"))).to_have_count(1)
        each.says(each.path.name)
    assert [] == first.page.evaluate("() => window.nbmemMixed")


def test_two_notebooks_on_one_kernel_show_the_same(book):
    first = book(LOAD, FEATS)
    first.run(0, 1)
    second = book(OTHER)
    second.page.evaluate(SAME_KERNEL, first.path.name)
    expect(row(second.docked, "Live tensors", "feats")).to_contain_text("16.0")
    second.run(0)
    expect(row(second.docked, "Live tensors", "masks")).to_contain_text("8.0")
    first.page.evaluate(ACTIVATE, first.path.name)
    expect(row(first.docked, "Live tensors", "masks")).to_contain_text("8.0")


def test_two_tabs_on_one_notebook_both_show_it(book, new_page):
    first = book(LOAD, FEATS, OTHER)
    first.run(0, 1)
    expect(row(first.docked, "Live tensors", "feats")).to_be_visible()  # built before the other
    first.saved()
    second = book.again(first, new_page())
    for each in (first, second):
        expect(row(each.docked, "Live tensors", "feats")).to_contain_text("16.0")
    second.run(2)
    for each in (first, second):
        expect(row(each.docked, "Live tensors", "masks")).to_contain_text("8.0")
    second.page.close()
    row(first.docked, "Live tensors", "masks").click()
    first.docked.get_by_role("button", name="del masks (8.00 MiB)").click()
    expect(first.docked).to_contain_text("Freed 8.00 MiB")


def test_a_console_is_followed_too(book):
    beside = book(LOAD, FEATS)
    beside.run(0, 1)
    page = beside.page
    page.evaluate(
        """async () => {
          const lab = window.jupyterapp;
          const { id } = await lab.commands.execute('console:create', {
            activate: true, kernelPreference: { name: 'python3' },
          });
          await lab.shell.currentWidget.sessionContext.ready;
          return id;
        }"""
    )
    beside.says("nbmem is not loaded in Console")
    beside.press("Load nbmem")
    expect(beside.docked).to_contain_text("Run a cell with %%gpumem")
    page.evaluate(
        """async (code) => {
          const panel = window.jupyterapp.shell.currentWidget;
          await panel.console.inject(code);
          return 0;
        }""",
        "%%gpumem in the console\nimport torch\nx = torch.ones(1024 * 1024)",
    )
    expect(row(beside.docked, "Live tensors", "x")).to_contain_text("4.0")
    page.evaluate(
        """async () => {
          const panel = window.jupyterapp.shell.currentWidget;
          await panel.sessionContext.shutdown();
          panel.dispose();
          return 0;
        }"""
    )
    expect(row(beside.docked, "Live tensors", "feats")).to_contain_text("16.0")
