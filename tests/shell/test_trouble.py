"""Bad input, and what breaks inside nbmem: the user's cell never notices."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import weakref

import pytest

import nbmem

HOSTILE = """
class Hostile:
    '''Everything that a careless tool would call, raises or lies.'''
    called = []
    def __getattr__(self, name):
        Hostile.called.append(name)
        raise RuntimeError(name)
    @property
    def __class__(self):
        Hostile.called.append('__class__')
        raise RuntimeError('__class__')
    @property
    def __dict__(self):
        Hostile.called.append('__dict__')
        raise RuntimeError('__dict__')
    def items(self):
        Hostile.called.append('items')
        return 1 / 0
    __repr__ = __str__ = __len__ = __iter__ = __eq__ = __bool__ = __hash__ = (
        lambda self, *a: Hostile.called.append('dunder') or 1 / 0)

class LyingDict(dict):
    def items(self):
        Hostile.called.append('dict.items')
        return [('lie', torch.zeros(10**6))]
    __iter__ = keys = values = items

hostile, lying = Hostile(), LyingDict(truth=torch.zeros(7))
"""


def test_objects_that_raise_and_lie_are_never_called(notebook):
    notebook.run(HOSTILE)
    notebook.run("%%gpumem\nx = torch.zeros(25)\nkept = [hostile, {'a': hostile}]")
    assert [] == notebook.names["Hostile"].called
    assert [("x", 100)] == [(s.names[0], s.bytes) for s in notebook.records[-1].created]
    names = {name for storage in nbmem.list_storages() for name in storage.names}
    assert "lying['truth']" in names
    assert not any("lie" in name for name in names - {"lying['truth']"})
    assert [] == notebook.names["Hostile"].called


def test_dead_proxy_in_the_namespace(notebook):
    notebook.run(
        "import weakref\nclass C: pass\nc = C(); proxy = weakref.proxy(c); del c\n"
        "held = [proxy, torch.zeros(9)]"
    )
    assert notebook.run("%%gpumem\nx = torch.zeros(25)").success
    assert () == notebook.records[-1].notes


def test_hostile_name_is_escaped_in_html_and_whole_in_the_record(notebook):
    name = "<img src=x onerror=alert(1)>"
    notebook.run("%%gpumem " + '"<script>"' + f"\nd = {{{name!r}: torch.zeros(25)}}")
    assert [(f"d[{name!r}]",)] == [storage.names for storage in notebook.records[-1].created]
    html = notebook.shell.shown[-1]["data"]["text/html"]
    assert "<img" not in html
    assert "<script" not in html
    assert "&lt;img" in html


def test_name_of_ten_thousand_characters(notebook):
    notebook.run("%%gpumem -o record\nd = {'k' * 10_000: torch.zeros(25)}")
    (storage,) = notebook.names["record"].created
    assert len("d['']") + 10_000 == len(storage.names[0])
    assert max(map(len, notebook.reports[-1].splitlines())) <= 100


def test_hundred_thousand_tensors(notebook):
    assert notebook.run("%%gpumem\nmany = [torch.empty(1) for _ in range(100_000)]").success
    record = notebook.records[-1]
    assert 400_000 == record.devices["cpu"].delta
    assert 0 == record.devices["cpu"].unattributed


def test_cell_that_clears_the_namespace(notebook):
    notebook.run("import nbmem; x = torch.zeros(25)")
    assert notebook.run(
        "%%gpumem\nfor name in list(globals()):\n"
        "    if not name.startswith('__') and name not in ('get_ipython', 'In', 'Out'):\n"
        "        del globals()[name]\ndel name"
    ).success
    assert {"cpu": 100} == notebook.records[-1].freed
    assert notebook.run("%reset -f").success
    assert notebook.run("%%gpumem\nimport torch\ny = torch.zeros(5)").success
    assert 20 == notebook.records[-1].devices["cpu"].delta


@pytest.mark.parametrize(
    ("target", "doing"),
    [
        ("nbmem.session.core.take_inventory", "list what the cell left"),
        ("nbmem.scopes.Scopes.open", "start measuring"),
        ("nbmem.scopes.Scope.stop", "read the peak"),
        ("nbmem.scopes.Scope.close", "read the counters"),
        ("nbmem.session.recorder.made_as", "say what the cell made"),
        ("nbmem.session.recorder._rest", "say what the cell made"),
    ],
)
def test_what_breaks_inside_is_one_line_in_the_report(notebook, monkeypatch, capsys, target, doing):
    def broken(*args, **kwargs):
        raise LookupError("the room is on fire")

    monkeypatch.setattr(target, broken)
    result = notebook.run("%%gpumem\nx = torch.zeros(5); 6 * 7")
    monkeypatch.undo()
    assert 42 == result.result
    notes = [note.sentence for note in notebook.records[-1].notes if note.code == "broken"]
    # closing a scope stops it first, so a stop that breaks is met twice
    failed = [doing, "read the counters"] if doing == "read the peak" else [doing]
    assert [
        f"nbmem could not {what}: LookupError: the room is on fire (`%gpumem errors` shows where)"
        for what in failed
    ] == notes
    assert f"nbmem could not {doing}" in " ".join(notebook.reports[-1].split())
    capsys.readouterr()
    notebook.run("%gpumem errors")
    assert "Traceback (most recent call last)" in capsys.readouterr().out
    assert notebook.run("%%gpumem\ny = torch.zeros(25)").success
    assert 100 == notebook.records[-1].devices["cpu"].delta


@pytest.mark.parametrize(
    ("target", "doing"),
    [
        ("nbmem.history.History.put", "keep the record"),
        ("nbmem.render.report_bundle", "show the report"),
        ("nbmem.session.cells.CellWatcher._ended", "end the cell"),
        ("nbmem.session.cells.ending_of", "end the cell"),
    ],
)
def test_what_breaks_at_the_end_is_one_line_under_the_cell(
    notebook, monkeypatch, capsys, target, doing
):
    def broken(*args, **kwargs):
        raise LookupError("no paper")

    monkeypatch.setattr(target, broken)
    assert 42 == notebook.run("%%gpumem\n6 * 7").result
    monkeypatch.undo()
    said = [shown["data"]["text/plain"] for shown in notebook.shell.shown]
    assert (
        f"nbmem could not {doing}: LookupError: no paper (`%gpumem errors` shows where)"
    ) in said
    assert "Traceback" not in "".join(capsys.readouterr())
    notebook.run("%gpumem")
    assert (
        f"The last thing that broke inside nbmem: nbmem could not {doing}: LookupError: no paper"
        " (`%gpumem errors` shows where)\n"
    ) == capsys.readouterr().out
    assert notebook.run("%%gpumem\ny = torch.zeros(25)").success
    assert 100 == notebook.records[-1].devices["cpu"].delta


def test_report_that_can_not_be_shown_does_not_fail_the_cell(notebook, monkeypatch):
    def broken(*args, **kwargs):
        raise LookupError("no ink")

    monkeypatch.setattr("nbmem.render.report_bundle", broken)
    assert notebook.run("%%gpumem\nx = torch.zeros(25)").success
    assert 100 == notebook.records[-1].devices["cpu"].delta
    assert notebook.shell.user_ns["x"].numel() == 25


def test_panel_that_breaks_does_not_fail_the_cell(notebook):
    from nbmem.session import current_session

    def broken():
        raise LookupError("no screen")

    current_session().subscribe(broken)
    assert notebook.run("%%gpumem\nx = torch.zeros(25)").success
    (trouble,) = current_session().troubles.all()
    assert ("redraw the panel", "LookupError: no screen") == (trouble.doing, trouble.summary)


def test_records_keep_no_tensor_frame_or_error_alive(notebook):
    notebook.run(
        "%%gpumem\nimport weakref\ndef fail():\n    local = torch.zeros(1000)\n"
        "    fail.seen = weakref.ref(local.untyped_storage())\n    raise ValueError\nfail()"
    )
    seen = notebook.names["fail"].seen
    shell = notebook.shell
    shell.InteractiveTB.tb = None
    shell.last_execution_result.error_in_exec = None
    sys.last_value = sys.last_traceback = None
    if hasattr(sys, "last_exc"):
        sys.last_exc = None
    import gc

    gc.collect()
    assert seen() is None


def test_looking_keeps_nothing_alive_and_adds_nothing(notebook):
    notebook.run("x = torch.zeros(1000); y = (x.requires_grad_() * 2).sum()")
    first = nbmem.list_storages()
    second = nbmem.list_storages()
    assert first == second
    alive = weakref.ref(notebook.names["x"].untyped_storage())
    notebook.run("del x, y")
    assert alive() is None


def run_without_torch(tmp_path, cells, version=None):
    """Runs cells in a process that finds no torch, or one of the given version."""
    fake = tmp_path / "site"
    (fake / "torch").mkdir(parents=True)
    if version is not None:
        (fake / "torch" / "__init__.py").write_text(f"__version__ = {version!r}\n")
    script = f"""
        import sys
        import importlib.abc
        class Missing(importlib.abc.MetaPathFinder):
            def find_spec(self, name, path, target=None):
                if name.split(".")[0] == "torch":
                    raise ModuleNotFoundError(name)
        {"sys.meta_path.insert(0, Missing())" if version is None else "import torch"}
        from IPython.core.interactiveshell import InteractiveShell
        from traitlets.config import Config
        config = Config()
        config.InteractiveShell.colors = "nocolor"
        shell = InteractiveShell.instance(config=config)
        for cell in {cells!r}:
            result = shell.run_cell(cell, store_history=True)
            print("success", result.success)
    """
    environment = {**os.environ, "PYTHONPATH": str(fake)} if version else os.environ
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    return ran.stdout + ran.stderr


def test_kernel_without_torch_gets_one_sentence(tmp_path):
    told = run_without_torch(tmp_path, ["%load_ext nbmem", "6 * 7"])
    assert (
        "UsageError: nbmem measures PyTorch, which this kernel lacks: run `%pip install torch`,"
        " then `%load_ext nbmem` again"
    ) in told
    assert "Traceback" not in told
    assert ["success False", "success True"] == [
        line for line in told.splitlines() if line.startswith("success")
    ]


def test_kernel_with_an_old_torch_gets_one_sentence(tmp_path):
    told = run_without_torch(tmp_path, ["%load_ext nbmem"], version="2.4.1+cu121")
    assert (
        "UsageError: nbmem needs torch 2.10 or newer and this kernel has 2.4.1+cu121:"
        " run `%pip install 'torch>=2.10'` and restart the kernel"
    ) in told
    assert "Traceback" not in told


def test_script_without_torch_gets_the_same_sentence(tmp_path):
    told = run_without_torch(tmp_path, ["import nbmem; nbmem.read_devices()"])
    assert "MissingPackageError: nbmem measures PyTorch" in told
