"""What JupyterLab and Notebook load: built from these sources, of one version, and shipped."""

from __future__ import annotations

import json
import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import nbmem

ROOT = Path(__file__).resolve().parents[2]
SOURCES, ASSETS = ROOT / "labextension", ROOT / "nbmem" / "labextension"
HASHES = runpy.run_path(str(ROOT / "scripts" / "labextension_hash.py"))
NODE_MODULES = SOURCES / "node_modules"
LICENCES = "third-party-licenses.json"

built_here = pytest.mark.skipif(
    not (NODE_MODULES.is_dir() and shutil.which("node")),
    reason="labextension/node_modules is not installed: `make labextension` installs it",
)


def package(folder: Path) -> dict:
    return json.loads((folder / "package.json").read_text("utf-8"))


def run(command: str, folder: Path) -> None:
    """Runs a script of package.json, with the tools that are installed beside it."""
    tools = [str(NODE_MODULES / ".bin"), str(Path(sys.executable).parent), os.environ["PATH"]]
    told = subprocess.run(
        command,
        shell=True,
        cwd=folder,
        env={**os.environ, "PATH": os.pathsep.join(tools)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert 0 == told.returncode, told.stdout[-4000:]


def chunks(folder: Path) -> dict[str, bytes]:
    """Returns what was built, but for the entry."""
    return {
        path.name: path.read_bytes()
        for path in sorted((folder / "static").iterdir())
        if not path.name.startswith("remoteEntry.")
    }


def test_the_assets_were_built_from_these_sources():
    assert [] == HASHES["find_differences"](), "run `make labextension`"


def test_a_changed_source_and_a_changed_asset_are_noticed(tmp_path):
    for name in ("labextension", "nbmem/labextension"):
        aside = shutil.ignore_patterns("node_modules", ".yarn", "lib", "build-test")
        shutil.copytree(ROOT / name, tmp_path / name, ignore=aside)
    find = HASHES["find_differences"]
    assert [] == find(tmp_path)
    tests = tmp_path / "labextension/src/__tests__"
    tests.mkdir(exist_ok=True)
    (tests / "more.test.ts").write_text("export {};\n")
    assert [] == find(tmp_path)
    (tmp_path / "labextension/src/more.ts").write_text("export {};\n")
    assert ["the sources changed after the build"] == find(tmp_path)
    (tmp_path / "nbmem/labextension/static/style.js").unlink()
    assert "static/style.js is not what was built" in find(tmp_path)


def test_python_the_sources_and_the_assets_have_one_version():
    assert nbmem.__version__ == package(SOURCES)["version"] == package(ASSETS)["version"]


def test_jupyter_can_say_which_python_package_it_came_with():
    told = json.loads((SOURCES / "install.json").read_text("utf-8"))
    assert ("python", "nbmem") == (told["packageManager"], told["packageName"])


def test_jupyter_lists_the_extension_as_enabled():
    command = [Path(sys.executable).with_name("jupyter-labextension"), "list"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True)
    (line,) = (line for line in listed.stderr.splitlines() if " nbmem v" in line)
    line = re.sub(r"\x1b\[[\d;]*m", "", line)
    assert f"nbmem v{nbmem.__version__} enabled OK" in re.sub(r"\s+", " ", line)


def test_any_jupyterlab_that_is_promised_may_share_its_packages():
    told = package(SOURCES)
    shared = told["jupyterlab"]["sharedPackages"]
    assert told["dependencies"] == {name: each["requiredVersion"] for name, each in shared.items()}


def test_the_lock_file_names_no_host():
    lock = (SOURCES / "yarn.lock").read_text("utf-8")
    assert "checksum:" in lock
    assert [] == re.findall(r"[a-z]+://\S+", lock)
    assert [] == re.findall(r"[a-z]+://\S+", (SOURCES / ".yarnrc.yml").read_text("utf-8"))


def test_the_assets_name_no_host_and_are_small():
    """Licences may name where a package comes from; code that a browser runs names nothing."""
    files = [path for path in ASSETS.rglob("*") if path.is_file() and path.name != LICENCES]
    found = {
        path.name: addresses
        for path in files
        if (
            addresses := set(
                re.findall(r"(?:https?|wss?)://[^\s\"'`)\\]+", path.read_text("utf-8"))
            )
        )
    }
    assert {"http://www.w3.org/2000/svg"} >= set().union(*found.values()), found
    assert 200_000 > sum(path.stat().st_size for path in files)


def test_there_is_one_entry_and_it_is_the_one_that_jupyter_is_told():
    (entry,) = (ASSETS / "static").glob("remoteEntry.*.js")
    assert f"static/{entry.name}" == package(ASSETS)["jupyterlab"]["_build"]["load"]


def link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copy2(source, target)


@built_here
def test_a_build_of_the_sources_gives_the_committed_files(tmp_path):
    """All but the entry: its numbers come from the folder's name."""
    copy = tmp_path / "labextension"
    aside = shutil.ignore_patterns("node_modules", ".yarn", "lib", "build-test", "*.tsbuildinfo")
    shutil.copytree(SOURCES, copy, ignore=aside)
    shutil.copytree(NODE_MODULES, copy / "node_modules", symlinks=True, copy_function=link)
    run(package(SOURCES)["scripts"]["build:prod"], copy)
    shutil.rmtree(copy / "node_modules")
    assert chunks(ASSETS) == chunks(tmp_path / "nbmem" / "labextension")


@built_here
def test_the_typescript_tests_pass():
    run(package(SOURCES)["scripts"]["test"], SOURCES)
