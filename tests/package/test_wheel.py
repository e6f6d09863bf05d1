"""The wheel as users get it: what is in it, and that it works where only it is installed."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import nbmem

ROOT = Path(__file__).resolve().parents[2]
ASSETS = ROOT / "nbmem" / "labextension"
SHARED = f"nbmem-{nbmem.__version__}.data/data/share/jupyter/labextensions/nbmem/"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out, ROOT]
    subprocess.run(command, check=True, capture_output=True)
    (built,) = out.glob("*.whl")
    return built


def test_wheel_holds_every_file_of_the_package_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as archive:
        inside = {name for name in archive.namelist() if ".dist-info/" not in name}
    on_disk = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "nbmem").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and ASSETS not in path.parents
    }
    assert on_disk == {name for name in inside if not name.startswith(SHARED)}
    assert {"nbmem/py.typed", "nbmem/panel/table.js", "nbmem/panel/chart.js"} <= inside


def test_wheel_puts_the_labextension_once_and_where_jupyter_looks(wheel):
    with zipfile.ZipFile(wheel) as archive:
        shared = {
            name.removeprefix(SHARED): archive.read(name)
            for name in archive.namelist()
            if name.startswith(SHARED)
        }
    built = {
        str(path.relative_to(ASSETS)): path.read_bytes()
        for path in ASSETS.rglob("*")
        if path.is_file()
    }
    install = (ROOT / "labextension" / "install.json").read_bytes()
    assert {**built, "install.json": install} == shared
    assert {"package.json", "schemas/nbmem/plugin.json"} <= shared.keys()
    assert 1 == sum(name.startswith("static/remoteEntry.") for name in shared)


def test_wheel_names_its_licence_and_extras(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
        text = archive.read(metadata).decode()
        assert any(name.endswith("licenses/LICENSE") for name in archive.namelist())
    assert "License-Expression: BSD-3-Clause" in text
    for extra in ("nvml", "lab", "examples", "test"):
        assert f"Provides-Extra: {extra}" in text


def test_unpacked_wheel_measures_a_cell(wheel, tmp_path):
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import nbmem; assert nbmem.__file__.startswith(sys.argv[1]), nbmem.__file__\n"
        "from IPython.core.interactiveshell import InteractiveShell\n"
        "shell = InteractiveShell.instance()\n"
        "for cell in ('%load_ext nbmem', 'import torch', '%%gpumem -q\\nx = torch.zeros(25)'):\n"
        "    shell.run_cell(cell, store_history=True).raise_error()\n"
        "print(nbmem.get_history().records()[-1].devices['cpu'].delta)"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    told = subprocess.check_output(command, text=True, cwd=tmp_path)
    assert "100" == told.splitlines()[-1]
