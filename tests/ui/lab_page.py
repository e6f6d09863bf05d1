"""One notebook in a page of JupyterLab: open it, run its cells, ask its kernel."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import nbformat
from playwright.sync_api import Locator, Page, expect

LONG = 60_000
"""Milliseconds: the longest a loaded machine may take for a step."""

OPEN = """(path) => {
  window.jupyterapp.commands.execute('docmanager:open', {path});
  return 0;
}"""

OPENED = """(path) => {
  const panel = window.jupyterapp?.shell?.currentWidget;
  return Boolean(panel?.sessionContext && panel.context?.path === path);
}"""

# "Run" before this opens a dialog that asks for a kernel, and waits for ever.
READY = """async () => {
  const panel = window.jupyterapp.shell.currentWidget;
  await panel.context.ready;
  await panel.sessionContext.ready;
  await panel.sessionContext.session.kernel.info;
  return 0;
}"""

RUN = """(index) => {
  const panel = window.jupyterapp.shell.currentWidget;
  panel.content.activeCellIndex = index;
  panel.content.deselectAll();
  window.nbmemRan = false;
  window.jupyterapp.commands.execute('notebook:run-cell').finally(() => {
    window.nbmemRan = true;
  });
  return 0;
}"""

ASK = """async (expression) => {
  const kernel = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel;
  const future = kernel.requestExecute({
    code: '', silent: true, store_history: false, user_expressions: {answer: expression},
  });
  const reply = await future.done;
  const answer = reply.content.user_expressions.answer;
  return answer.status === 'ok'
    ? answer.data['text/plain']
    : `${answer.ename}: ${answer.evalue}`;
}"""

# Bokeh draws on a canvas: what it shows is read from its models.
CHARTS = """() => {
  const versions = Object.keys(window.Bokeh ?? {}).filter((key) => /^\\d/.test(key));
  const documents = new Set(versions.flatMap((v) => [...window.Bokeh[v].documents]));
  return [...documents].map((document) => {
    const named = (name) => document.get_model_by_name(name);
    const source = named('nbmem-cells');
    return source && {
      columns: Object.fromEntries(
        Object.entries(source.data).map(([key, values]) => [key, [...values]])
      ),
      selected: [...source.selected.indices],
      unit: named('nbmem-bytes-axis').axis_label,
      top: named('nbmem-y').end,
      capacity: named('nbmem-capacity').visible,
      width: named('nbmem-history').inner_width,
      range: [named('nbmem-x').start, named('nbmem-x').end],
      ticks: [...named('nbmem-cells-axis').ticker.ticks],
      ink: named('nbmem-cells-axis').major_label_text_color,
    };
  }).filter(Boolean);
}"""


class Notebook:
    """A notebook file that is open in a page."""

    def __init__(self, page: Page, url: str, path: Path) -> None:
        self.page = page
        self.url = url
        self.path = path
        self.errors: list[str] = []
        page.set_default_timeout(LONG)
        page.set_viewport_size({"width": 1000, "height": 1100})
        page.on("pageerror", self._error)
        page.on("dialog", self._dialog)

    def _error(self, error: Any) -> None:
        self.errors.append(str(error))

    def _dialog(self, dialog: Any) -> None:
        if dialog.type == "beforeunload":  # Lab asks whether to leave an unsaved notebook
            dialog.accept()
            return
        self.errors.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def write(self, cells: tuple[str, ...]) -> None:
        """Writes the file."""
        book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code) for code in cells])
        book.metadata["kernelspec"] = {
            "name": "python3",
            "display_name": "Python 3",
            "language": "python",
        }
        nbformat.write(book, self.path)

    def open(self) -> None:
        """Opens the file in this page's JupyterLab, and waits for its kernel."""
        if self.page.evaluate("() => Boolean(window.jupyterapp)"):
            self.page.evaluate(OPEN, self.path.name)
        else:
            self.goto(self.path)
        self.ready()

    def goto(self, path: Path) -> None:
        """Opens a file in JupyterLab anew, without waiting for a kernel."""
        self.page.goto(f"{self.url}/lab/tree/{path.name}?reset")

    def ready(self) -> None:
        """Waits until cells can run."""
        self.page.wait_for_function(OPENED, arg=self.path.name, timeout=LONG)
        self.page.evaluate(READY)

    def reload(self) -> None:
        """Reloads the page; the kernel lives on."""
        self.page.reload()
        self.ready()

    def run(self, *indices: int) -> None:
        """Runs cells one after the other and waits for each end."""
        for index in indices:
            self.page.evaluate(RUN, index)
            self.page.wait_for_function("() => window.nbmemRan", timeout=LONG)

    def ask(self, expression: str) -> str:
        """Returns the repr of an expression in the kernel; no cell runs for it."""
        return self.page.evaluate(ASK, expression)

    def output(self, index: int) -> Locator:
        """Returns the output area of a cell."""
        cells = self.page.locator(".jp-NotebookPanel:visible .jp-Notebook .jp-Cell")
        return cells.nth(index).locator(".jp-OutputArea")

    def panel(self, index: int) -> Locator:
        """Returns the panel shown under a cell."""
        return self.output(index).locator(".nbmem-panel")

    def charts(self) -> list[dict[str, Any]]:
        """Returns what each chart of the page shows."""
        return self.page.evaluate(CHARTS)

    def wait_for_bars(self, cells: list[str], charts: int = 1) -> list[dict[str, Any]]:
        """Waits until every chart has just these bars; returns what the charts show."""
        wanted = json.dumps([cells] * charts, separators=(",", ":"))
        shown = f"JSON.stringify(({CHARTS})().map((chart) => chart.columns.cell))"
        self.page.wait_for_function(f"() => {shown} === {json.dumps(wanted)}", timeout=LONG)
        return self.charts()

    def wait_for_charts(self, condition: str) -> list[dict[str, Any]]:
        """Waits until `condition`, JavaScript over one `chart`, holds for every chart."""
        script = f"() => ({CHARTS})().every((chart) => {condition})"
        self.page.wait_for_function(script, timeout=LONG)
        return self.charts()

    def saved(self) -> Any:
        """Saves the notebook and returns what the file holds."""
        self.page.evaluate(
            "() => { window.nbmemSaved = false;"
            " window.jupyterapp.shell.currentWidget.context.save()"
            ".then(() => { window.nbmemSaved = true; }); return 0; }"
        )
        self.page.wait_for_function("() => window.nbmemSaved", timeout=LONG)
        return nbformat.read(self.path, as_version=4)

    def restart(self) -> None:
        """Restarts the kernel and waits until cells can run."""
        self.page.evaluate(
            "async () => { const session = window.jupyterapp.shell.currentWidget.sessionContext;"
            " await session.restartKernel(); return 0; }"
        )
        self.page.evaluate(READY)

    def shut_down(self) -> None:
        """Ends the kernel."""
        self.page.evaluate(
            "async () => { const session = window.jupyterapp?.shell?.currentWidget?.sessionContext;"
            " if (session?.session) await session.shutdown(); return 0; }"
        )

    def close(self) -> None:
        """Ends the kernel and closes the notebook, unsaved."""
        self.shut_down()
        self.page.evaluate(
            "() => { window.jupyterapp?.shell?.currentWidget?.dispose(); return 0; }"
        )
        self.page.remove_listener("pageerror", self._error)
        self.page.remove_listener("dialog", self._dialog)


def rows(table: Locator) -> Locator:
    """Returns the rows of a table of the panel."""
    return table.locator("[role=rowgroup] [role=row]")


def table(panel: Locator, label: str) -> Locator:
    """Returns a table of the panel by its label."""
    return panel.get_by_role("grid", name=label).or_(panel.get_by_role("treegrid", name=label))


def row(panel: Locator, label: str, text: str) -> Locator:
    """Returns the row of a table that holds a text."""
    return rows(table(panel, label)).filter(has_text=text)


__all__ = ["LONG", "RUN", "Notebook", "expect", "row", "rows", "table"]
