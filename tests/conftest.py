"""Shared by all tests: a shell of IPython's, and the search for what a test left behind."""

from __future__ import annotations

import atexit
import gc
import signal
import sys
import threading

import pytest
import torch
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

import nbmem

WATCHED_FUNCTIONS = (
    (torch._C, "_cuda_memoryStats"),
    (torch._C, "_cuda_resetPeakMemoryStats"),
    (torch._C, "_cuda_setMemoryMetadata"),
    (torch._C, "_accelerator_getDeviceStats"),
    (torch._C, "_accelerator_resetPeakStats"),
    (torch.UntypedStorage, "resize_"),
    (torch.UntypedStorage, "__init__"),
    (torch.UntypedStorage, "__new__"),
)


def _state_of_process():
    return {
        "functions": {
            f"{owner.__name__}.{name}": getattr(owner, name, None)
            for owner, name in WATCHED_FUNCTIONS
        },
        "getrusage": sys.modules["resource"].getrusage if "resource" in sys.modules else None,
        "dispatch modes": [type(mode).__name__ for mode in _get_current_dispatch_mode_stack()],
        "threads": sorted(t.name for t in threading.enumerate() if "nbmem" in t.name.lower()),
        "gc callbacks": [repr(call) for call in gc.callbacks if not _is_hypothesis(call)],
        "comms": _open_comms(),
    }


def pytest_configure(config):
    """In the background of a shell Ctrl-C is ignored, and Python leaves it so."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items):
    """What some tests leave alive must not be seen by others."""
    items.sort(key=lambda item: item.get_closest_marker("leaves_graphs") is not None)


def _is_hypothesis(call):
    """Hypothesis times the collector by a callback that stays."""
    return str(getattr(call, "__module__", "")).startswith("hypothesis.")


def _open_comms():
    widgets = sys.modules.get("ipywidgets.widgets.widget")
    return sorted(widgets._instances) if widgets else []


@pytest.fixture(autouse=True)
def leftovers():
    """Fails a test after which torch, Python or IPython are not as they were."""
    if "resource" not in sys.modules:
        import resource  # noqa: F401 - so that the state before and after speak of the same
    before = _state_of_process()
    yield
    session = sys.modules.get("nbmem.session")
    if session is not None:
        session.close_session()
    assert before == _state_of_process()


@pytest.fixture
def measured():
    """What `NbMem.device` is set to: folders and files whose tests mean one device override it."""
    return "auto"


@pytest.fixture
def shell(measured):
    """A fresh IPython shell without a front end; what it displays is in `shell.shown`."""
    import IPython.core.completer  # noqa: F401  keeps the `__main__` at its import: not a shell's
    from IPython.core.displaypub import CapturingDisplayPublisher
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "nocolor"
    if measured != "auto":
        config.NbMem.device = measured
    main = sys.modules["__main__"]
    InteractiveShell.clear_instance()
    made = InteractiveShell.instance(config=config)
    made.display_pub = CapturingDisplayPublisher()
    made.shown = made.display_pub.outputs
    hooks = {event: list(calls) for event, calls in made.events.callbacks.items()}
    transforms = list(made.input_transformer_manager.cleanup_transforms)
    yield made
    if "nbmem" in made.extension_manager.loaded:
        made.extension_manager.unload_extension("nbmem")
    assert hooks == {event: list(calls) for event, calls in made.events.callbacks.items()}
    assert transforms == made.input_transformer_manager.cleanup_transforms
    assert "NbMem" not in {type(part).__name__ for part in made.configurables}
    assert "gpumem" not in made.magics_manager.magics["cell"]
    made.reset(new_session=False)
    # Each would collect garbage once more at the end, and be kept in memory until then.
    atexit.unregister(made.atexit_operations)
    atexit.unregister(made.magics_manager.registry["ScriptMagics"].kill_bg_processes)
    InteractiveShell.clear_instance()
    sys.modules["__main__"] = main  # else the next shell would keep this one, and so on
    sys.last_type = sys.last_value = sys.last_traceback = None
    if hasattr(sys, "last_exc"):
        sys.last_exc = None


class Notebook:
    """Runs cells in a shell the way a front end does, and reads what they showed."""

    def __init__(self, shell):
        self.shell = shell

    def run(self, code, *, store_history=True, silent=False, cell_id=None):
        return self.shell.run_cell(
            code, store_history=store_history, silent=silent, cell_id=cell_id
        )

    @property
    def names(self):
        return self.shell.user_ns

    @property
    def records(self):
        return nbmem.get_history().records()

    @property
    def reports(self):
        """The plain text of every report shown so far."""
        return [
            shown["data"]["text/plain"]
            for shown in self.shell.shown
            if "text/html" in shown["data"]
        ]


@pytest.fixture
def bare(shell):
    """A notebook in which nbmem is not loaded."""
    return Notebook(shell)


@pytest.fixture
def notebook(bare):
    """A notebook in which nbmem is loaded and torch imported."""
    assert bare.run("%load_ext nbmem").success
    assert bare.run("import torch").success
    return bare
