"""JupyterLab on loopback and a real Chromium, both started and ended by the tests."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from lab_page import LONG, Notebook
from playwright.sync_api import BrowserContext, sync_playwright

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def pytest_collection_modifyitems(items):
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.ui)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def lab_environment(home: Path) -> dict[str, str]:
    places = {
        "HOME": "",
        "JUPYTER_CONFIG_DIR": "config",
        "JUPYTER_DATA_DIR": "data",
        "JUPYTER_RUNTIME_DIR": "runtime",
        "IPYTHONDIR": "ipython",
        "JUPYTERLAB_SETTINGS_DIR": "settings",
        "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
    }
    quiet = home / "settings/@jupyterlab/apputils-extension/notification.jupyterlab-settings"
    quiet.parent.mkdir(parents=True)
    quiet.write_text(json.dumps({"fetchNews": "false", "checkForUpdates": False}))
    return {**os.environ, **{name: str(home / place) for name, place in places.items()}}


def lab_command(port: int, root: Path) -> list[str]:
    return [
        sys.executable,
        "-m",
        "jupyterlab",
        "--no-browser",
        "--allow-root",
        f"--port={port}",
        "--ServerApp.ip=127.0.0.1",
        "--ServerApp.port_retries=0",
        "--IdentityProvider.token=",
        "--ServerApp.password=",
        "--ServerApp.disable_check_xsrf=True",
        f"--ServerApp.root_dir={root}",
        "--LabApp.expose_app_in_browser=True",
        "--LabApp.extension_manager=readonly",
    ]


def wait_for_server(process: subprocess.Popen, url: str, log: Path) -> None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    for _attempt in range(240):
        if process.poll() is not None:
            pytest.fail(f"JupyterLab ended at its start:\n{log.read_text()[-3000:]}")
        try:
            opener.open(f"{url}/api", timeout=2).close()
            return
        except OSError:
            try:
                process.wait(0.25)  # the pause between two attempts ends early if Lab ends
            except subprocess.TimeoutExpired:
                continue
    pytest.fail(f"JupyterLab did not answer:\n{log.read_text()[-3000:]}")


@pytest.fixture(scope="session")
def lab(tmp_path_factory):
    """Returns the address of a JupyterLab and the folder it serves."""
    home = tmp_path_factory.mktemp("lab")
    root, log, port = home / "notebooks", home / "lab.log", free_port()
    root.mkdir()
    with log.open("wb") as sink:
        process = subprocess.Popen(
            lab_command(port, root), env=lab_environment(home), stdout=sink, stderr=sink
        )
    url = f"http://127.0.0.1:{port}"
    try:
        wait_for_server(process, url, log)
        yield url, root
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@pytest.fixture(scope="session")
def chromium():
    """Returns a headless Chromium: `NBMEM_CHROMIUM`, the system's, or Playwright's own."""
    path = os.environ.get("NBMEM_CHROMIUM") or shutil.which("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, headless=True, args=FLAGS)
        yield browser.new_context()  # one for all: JupyterLab's scripts are read once
        browser.close()


@pytest.fixture(scope="session")
def lab_page(lab, chromium):
    """Returns a page in which JupyterLab is open."""
    page = chromium.new_page()
    page.goto(f"{lab[0]}/lab?reset")
    page.wait_for_function("() => Boolean(window.jupyterapp)", timeout=LONG)
    page.evaluate("async () => { await window.jupyterapp.restored; return 0; }")
    return page


@pytest.fixture
def notebook(lab, chromium: BrowserContext, lab_page, request):
    """Returns a function that opens a new notebook with the given cells in JupyterLab.

    With `own_page` in a page of its own, on which no widget of ours has been.
    """
    url, root = lab
    opened: list[Notebook] = []

    def open_notebook(*cells: str, own_page: bool = False) -> Notebook:
        name = f"{request.node.name[:40]}-{len(opened)}.ipynb"
        notebook = Notebook(chromium.new_page() if own_page else lab_page, url, root / name)
        opened.append(notebook)
        notebook.write(cells)
        notebook.open()
        return notebook

    yield open_notebook
    for each in opened:
        each.close()
        if each.page is not lab_page:
            each.page.close()
