"""A notebook page that has ipywidgets' own packages and nothing else, over a real kernel.

The widget manager is the one that ipywidgets itself installs (`widgetsnbextension`), the page
around it is in `core_page/`. JupyterLab's server has both among its static files and starts the
kernels; of JupyterLab itself the page has nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import widgetsnbextension
from lab_page import LONG
from playwright.sync_api import Locator, Page

STATIC = [Path(__file__).parent / "core_page", Path(widgetsnbextension.__file__).parent / "static"]
"""Folders that the server has to have among its static files."""


class CorePage:
    """One notebook in such a page."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self.url = url
        self.errors: list[str] = []
        self.elsewhere: list[str] = []
        page.set_default_timeout(LONG)
        page.set_viewport_size({"width": 1000, "height": 1400})
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("dialog", self._dialog)
        page.on("request", self._request)
        page.goto(f"{url}/static/core.html")
        self.ready()

    def _dialog(self, dialog: Any) -> None:
        self.errors.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _request(self, request: Any) -> None:
        if not request.url.startswith((self.url, "data:", "blob:")):
            self.elsewhere.append(request.url)

    def ready(self) -> None:
        """Waits until cells can run, and until the kernel's widgets are known."""
        self.page.wait_for_function("() => window.nbmemReady", timeout=LONG)

    def start(self, code: str) -> None:
        """Adds a cell and runs it, without waiting for its end."""
        self.page.evaluate(
            "(code) => { window.nbmemStatus = null;"
            " book.run(code).then((status) => { window.nbmemStatus = status; }); return 0; }",
            code,
        )

    def wait(self) -> str:
        """Waits for the end of the cell started last; returns its status."""
        self.page.wait_for_function("() => window.nbmemStatus", timeout=LONG)
        return self.page.evaluate("() => window.nbmemStatus")

    def run(self, *codes: str) -> None:
        """Adds cells and runs them, one after the other."""
        for code in codes:
            self.start(code)
            self.wait()

    def ask(self, expression: str) -> str:
        """Returns the repr of an expression in the kernel; no cell runs for it."""
        return self.page.evaluate("(expression) => book.ask(expression)", expression)

    def refused(self) -> list[str]:
        """Returns the modules of widgets that the page would not load."""
        return self.page.evaluate("() => refused")

    def reload(self, *, new_kernel: bool = False) -> None:
        """Reloads the page; the kernel lives on, or another takes its place."""
        if new_kernel:
            self._end_kernel()
            self.page.evaluate("() => { book.forgetKernel(); return 0; }")
        self.page.reload()
        self.ready()

    def output(self, index: int) -> Locator:
        """Returns the outputs of a cell."""
        return self.page.locator(".cell").nth(index).locator(".outputs")

    def panel(self, index: int) -> Locator:
        """Returns the panel shown under a cell."""
        return self.output(index).locator(".nbmem-panel")

    def _end_kernel(self) -> None:
        self.page.evaluate(
            "async () => { await fetch(`/api/kernels/${book.kernel.id}`, {method: 'DELETE'});"
            " return 0; }"
        )

    def close(self) -> None:
        """Ends the kernel and closes the page."""
        self._end_kernel()
        self.page.close()
