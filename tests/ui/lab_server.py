"""A Jupyter server on loopback: a free port, a temporary home, kernels of several kinds."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from core_page import STATIC

HERE = Path(__file__).parent

OLD_PYTHON = HERE.parents[1] / ".venv-lab42" / "bin" / "python"
"""Of the environment with the oldest JupyterLab and Notebook; it has no torch and no nbmem."""

PLACES = {
    "HOME": "",
    "JUPYTER_CONFIG_DIR": "config",
    "JUPYTER_DATA_DIR": "data",
    "JUPYTER_RUNTIME_DIR": "runtime",
    "IPYTHONDIR": "ipython",
    "JUPYTERLAB_SETTINGS_DIR": "settings",
    "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
}

WITHOUT = (
    "import sys; sys.modules['{}'] = None;"
    " from ipykernel import kernelapp; kernelapp.launch_new_instance()"
)
"""A Python in which one package can't be imported, as if it were not installed."""

KERNELS = {
    "with-nbmem": ("python", ["-m", "ipykernel_launcher"]),
    "without-torch": ("python", ["-c", WITHOUT.format("torch")]),
    "without-nbmem": ("python", ["-c", WITHOUT.format("nbmem")]),
    "julia": ("julia", [str(HERE / "julia_kernel.py")]),
}
"""Kernelspecs by name: the language, and what this Python is started with."""


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def lab_environment(home: Path) -> dict[str, str]:
    quiet = home / "settings/@jupyterlab/apputils-extension/notification.jupyterlab-settings"
    quiet.parent.mkdir(parents=True)
    quiet.write_text(json.dumps({"fetchNews": "false", "checkForUpdates": False}))
    for name in KERNELS:
        write_kernelspec(home, name)
    return {**os.environ, **{name: str(home / place) for name, place in PLACES.items()}}


def write_kernelspec(home: Path, name: str) -> None:
    language, arguments = KERNELS[name]
    spec = {
        "argv": [sys.executable, *arguments, "-f", "{connection_file}"],
        "display_name": name,
        "language": language,
    }
    folder = home / "data" / "kernels" / name
    folder.mkdir(parents=True)
    (folder / "kernel.json").write_text(json.dumps(spec))


def lab_command(port: int, root: Path, python: str = sys.executable) -> list[str]:
    return [
        python,
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
        *(f"--ServerApp.extra_static_paths={folder}" for folder in STATIC),
        "--LabApp.expose_app_in_browser=True",
        "--LabApp.extension_manager=readonly",
        "--JupyterNotebookApp.expose_app_in_browser=True",
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


@contextmanager
def serve(home: Path, python: str = sys.executable) -> Iterator[tuple[str, Path]]:
    """Gives the address of a server that runs in `python`, and the folder that it serves."""
    root, log, port = home / "notebooks", home / "lab.log", free_port()
    root.mkdir(parents=True)
    with log.open("wb") as sink:
        process = subprocess.Popen(
            lab_command(port, root, python), env=lab_environment(home), stdout=sink, stderr=sink
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
