"""A notebook with nbmem's sidebar beside it: show it, wait for its states, hold a cell running."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
from lab_page import LONG, OPENED, RUN, Notebook, expect, row, rows, table
from playwright.sync_api import ConsoleMessage, Locator, Page

PATIENCE = 20_000
"""Milliseconds for what a page does by itself, on a machine that does much besides."""

expect.set_options(timeout=PATIENCE)

LOAD = "import torch, weakref\n%load_ext nbmem"

FEATS = "%%gpumem make feats\nfeats = torch.ones(4 * 1024 * 1024)\nsee = weakref.ref(feats)"
"""A cell that makes 16 MiB and keeps them."""

FOREIGN = (
    "Command 'filebrowser:open-path' not registered.",
    "Cannot read properties of undefined (reading 'schema')",
    "Cannot read properties of undefined (reading 'last_modified')",
    "Error: Canceled future for create_subshell_request",
    "Could not restore the debugger state: Canceled future for debug_request",
)
"""What Notebook 7 itself raises as it opens a notebook, and JupyterLab as it closes one."""

SHOW = """async () => {
  await window.jupyterapp.restored;
  window.jupyterapp.commands.execute('nbmem:show');
  return 0;
}"""


class Book(Notebook):
    """A notebook with the sidebar beside it; collects what the console calls errors."""

    def __init__(self, page: Page, url: str, path: Path, kernel: str = "python3") -> None:
        super().__init__(page, url, path)
        self.kernel = kernel
        page.on("console", self._said)

    def _error(self, error: Any) -> None:
        if not str(error).startswith(FOREIGN):
            self.errors.append(f"{error}: {error.stack}")

    def _said(self, message: ConsoleMessage) -> None:
        where = message.location.get("url", "")
        gone = "404" in message.text and "/api/sessions/" in where  # Lab asks after one it ended
        if message.type == "error" and not gone and not message.text.startswith(FOREIGN):
            self.errors.append(f"console: {message.text} ({where})")

    def write(self, cells: tuple[str, ...]) -> None:
        """Writes the file, for a kernel of this notebook's kind."""
        book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code) for code in cells])
        book.metadata["kernelspec"] = {"name": self.kernel, "display_name": self.kernel}
        nbformat.write(book, self.path)

    def show(self) -> Locator:
        """Shows the sidebar by its command; returns it."""
        self.page.evaluate(SHOW)
        expect(self.sidebar).to_be_visible()
        return self.sidebar

    @property
    def sidebar(self) -> Locator:
        """The sidebar's panel."""
        return self.page.locator("#nbmem-panel").and_(
            self.page.get_by_role("region", name="GPU memory")
        )

    @property
    def docked(self) -> Locator:
        """The kernel's own panel in the sidebar."""
        return self.sidebar.locator(".nbmem-panel")

    def says(self, text: str) -> None:
        """Waits until the sidebar says a text."""
        expect(self.sidebar).to_contain_text(text)

    def press(self, name: str) -> None:
        """Presses a button of the sidebar."""
        self.sidebar.get_by_role("button", name=name, exact=True).click()

    def reload_busy(self) -> None:
        """Loads the page anew while a cell runs, and shows the sidebar."""
        self.goto(self.path)  # what JupyterLab would open by itself it may not have noted yet
        self.page.wait_for_function(OPENED, arg=self.path.name, timeout=LONG)
        self.show()

    def start(self, index: int) -> None:
        """Runs a cell and does not wait for its end."""
        self.page.evaluate(RUN, index)

    def ended(self) -> None:
        """Waits for the end of the cell that was started last."""
        self.page.wait_for_function("() => window.nbmemRan", timeout=LONG)

    def look_for_broken(self) -> None:
        """Takes what a widget that could not be drawn has to say for an error."""
        for broken in self.page.locator(".jupyter-widgets-error-widget:visible").all():
            broken.click()
            self.errors.append(f"widget: {broken.inner_text()}")

    def close(self) -> None:
        """Ends the kernel and closes the notebook."""
        super().close()
        self.page.remove_listener("console", self._said)


class Gate:
    """A file that a cell waits for, so that a test decides how long the cell runs."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.reached = path.with_name(f"{path.name}.reached")

    @property
    def code(self) -> str:
        """Python that says that it came here, and goes on when the gate is open."""
        return (
            "import os, time\n"
            f"open({str(self.reached)!r}, 'w').close()\n"
            f"while not os.path.exists({str(self.path)!r}): time.sleep(0.01)"
        )

    @property
    def shell(self) -> str:
        """A shell's line that ends when the gate is open."""
        return f"while [ ! -e '{self.path}' ]; do sleep 0.05; done"

    def wait(self, page: Page) -> None:
        """Waits until the cell is there."""
        while not self.reached.exists():
            page.wait_for_timeout(20)  # the page goes on living meanwhile

    def open(self) -> None:
        """Lets the cell go on."""
        self.path.touch()


__all__ = ["FEATS", "LOAD", "LONG", "Book", "Gate", "expect", "row", "rows", "table"]
