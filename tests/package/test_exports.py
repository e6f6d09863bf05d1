"""What `import nbmem` gives, and what it leaves alone."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import version

import pytest

import nbmem


def test_every_exported_name_is_there_and_sorted():
    assert sorted(nbmem.__all__) == list(nbmem.__all__)
    for name in nbmem.__all__:
        assert getattr(nbmem, name) is not None
    assert set(nbmem.__all__) <= set(dir(nbmem))


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="'nbmem' has no attribute 'no_such_thing'"):
        nbmem.no_such_thing


def test_import_loads_neither_torch_nor_widgets_nor_bokeh():
    code = "import json, sys, nbmem; print(json.dumps(sorted(sys.modules)))"
    loaded = json.loads(subprocess.check_output([sys.executable, "-c", code], text=True))
    assert "nbmem" in loaded
    assert set() == {"torch", "ipywidgets", "bokeh", "anywidget", "IPython", "numpy"} & set(loaded)


def test_loading_the_extension_imports_neither_widgets_nor_bokeh():
    code = (
        "import json, sys\n"
        "from IPython.core.interactiveshell import InteractiveShell\n"
        "shell = InteractiveShell.instance()\n"
        "shell.run_cell('%load_ext nbmem').raise_error()\n"
        "shell.run_cell('%%gpumem -q\\nx = 1').raise_error()\n"
        "print(json.dumps(sorted(sys.modules)))"
    )
    told = subprocess.check_output([sys.executable, "-c", code], text=True)
    assert set() == {"ipywidgets", "bokeh", "anywidget"} & set(json.loads(told.splitlines()[-1]))


def test_version_is_the_installed_one():
    assert version("nbmem") == nbmem.__version__
