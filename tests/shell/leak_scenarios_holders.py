"""Leaks of what outlives its names elsewhere: garbage, callbacks, libraries, logs, C++."""

from __future__ import annotations

from leak_scene import Scenario

GARBAGE = (
    Scenario(
        "a cycle while the collector is off",
        "unreachable",
        "garbage",
        """
        import gc; gc.collect(); gc.disable()
        class Trainer:
            def __init__(self):
                self.batch = probe(torch.ones(2**18))
                self.me = self
        # %%
        trainer = Trainer()
        del trainer
        """,
        ("        self.me = self", "        self.me = None"),
        "gc.collect();",
        made_by=2,
        path=("batch",),
    ),
    Scenario(
        "a model and its trainer, not collected yet",
        "unreachable",
        "garbage",
        """
        import gc; gc.collect(); gc.disable()
        class Trainer:
            pass
        # %%
        trainer, model = Trainer(), probe(nn.Linear(512, 512, bias=False))
        trainer.model = model
        model.hooks = [trainer]
        del trainer, model
        """,
        ("model.hooks = [trainer]", "model.hooks = [None]"),
        "gc.collect();",
        made_by=2,
    ),
    Scenario(
        "a cycle that was frozen",
        "unreachable",
        "frozen",
        """
        import gc; gc.collect();
        class Trainer:
            def __init__(self):
                self.batch = probe(torch.ones(2**18))
                self.me = self
        # %%
        trainer = Trainer()
        gc.freeze()
        del trainer
        gc.collect();
        """,
        ("gc.freeze()", "gc.isenabled()"),
        "gc.unfreeze(); gc.collect();",
        made_by=2,
        target="everything",
    ),
    Scenario(
        "a list in itself that was frozen",
        "unreachable",
        "frozen",
        """
        import gc; gc.collect();
        parts = [probe(torch.ones(2**18))]
        parts.append(parts)
        # %%
        gc.freeze()
        del parts
        gc.collect();
        """,
        ("gc.freeze()", "gc.isenabled()"),
        "gc.unfreeze(); gc.collect();",
        target="everything",
    ),
)

CALLBACKS = (
    Scenario(
        "the argument of a finalizer",
        "forgotten_reference",
        "finalizer",
        """
        import weakref
        class Run:
            pass
        run = Run()
        # %%
        weakref.finalize(run, print, probe(torch.ones(2**18))).atexit = False
        """,
        (
            "weakref.finalize(run, print, probe(torch.ones(2**18))).atexit = False",
            "weakref.finalize(run, print, probe(torch.ones(2**18)).shape).atexit = False",
        ),
        "weakref.finalize._registry.popitem();",
        path=("finalize",),
        made_by=2,
        target="leak",
        after="told = type(run).__name__",
    ),
    Scenario(
        "the argument of a call at exit",
        "forgotten_reference",
        "interpreter_callback",
        """
        import atexit
        later(lambda: atexit.unregister(print))
        # %%
        atexit.register(print, probe(torch.ones(2**18)));
        """,
        (
            "atexit.register(print, probe(torch.ones(2**18)));",
            "atexit.register(print, probe(torch.ones(2**18)).shape);",
        ),
        "atexit.unregister(print)",
        path=("atexit",),
        made_by=2,
        target="refused",
    ),
    Scenario(
        "the closure of a call at exit",
        "forgotten_reference",
        "interpreter_callback",
        """
        import atexit, weakref
        def start():
            model = probe(nn.Linear(512, 512, bias=False))
            def save():
                return len(list(model.parameters()))
            aside("save", weakref.ref(save))
            later(lambda: atexit.unregister(ASIDE["save"]()))
            atexit.register(save)
        # %%
        start()
        """,
        ("    atexit.register(save)", "    str(save)"),
        "atexit.unregister(ASIDE['save']())",
        path=("atexit", "'save'", "model"),
        made_by=2,
        target="leak",
    ),
    Scenario(
        "the closure of a button",
        "forgotten_reference",
        "widget_callback",
        """
        import ipywidgets
        button = ipywidgets.Button()
        later(ipywidgets.Widget.close_all)
        # %%
        def connect():
            seen = [probe(torch.ones(2**18))]
            def press(_): return len(seen)
            button.on_click(press)
        connect()
        """,
        (
            "    seen = [probe(torch.ones(2**18))]",
            "    seen = [probe(torch.ones(2**18)).shape]",
        ),
        "button._click_handlers.callbacks[0].__closure__[0].cell_contents.clear()",
        path=("Button", "'seen'"),
        made_by=2,
        target="leak",
        after="told = button.description",
    ),
    Scenario(
        "the closure of a slider that is observed",
        "forgotten_reference",
        "widget_callback",
        """
        import ipywidgets
        def build():
            seen = [probe(torch.ones(2**18))]
            slider = ipywidgets.IntSlider()
            slider.observe(lambda change: len(seen), "value")
            later(ipywidgets.Widget.close_all)
        # %%
        build()
        """,
        (
            "    seen = [probe(torch.ones(2**18))]",
            "    seen = [probe(torch.ones(2**18)).shape]",
        ),
        "ipywidgets.Widget.close_all(); import gc; gc.collect();",
        path=("'seen'",),
        made_by=2,
        target="leak",
    ),
)

LIBRARIES = (
    Scenario(
        "the state of a library",
        "forgotten_reference",
        "container",
        """
        def warm_up():
            import colorsys
            colorsys.seen = {"first": probe(torch.ones(2**18))}
            later(lambda: vars(colorsys).pop("seen", None))
        # %%
        warm_up()
        """,
        (
            '    colorsys.seen = {"first": probe(torch.ones(2**18))}',
            '    colorsys.seen = {"first": probe(torch.ones(2**18)).shape}',
        ),
        "import colorsys; colorsys.seen.clear()",
        path=("colorsys", "seen", "['first']"),
        made_by=2,
        target="leak",
    ),
    Scenario(
        "the records of a log",
        "forgotten_reference",
        "log_record",
        """
        import logging, logging.handlers
        def start():
            handler = logging.handlers.MemoryHandler(1000)
            logging.getLogger("train").addHandler(handler)
            logging.getLogger("train").propagate = False
            later(lambda: logging.getLogger("train").handlers.clear())
        start()
        # %%
        logging.getLogger("train").warning("batch %s", probe(torch.ones(2**18)))
        """,
        (
            'logging.getLogger("train").warning("batch %s", probe(torch.ones(2**18)))',
            'logging.getLogger("train").warning("batch %s", probe(torch.ones(2**18)).shape)',
        ),
        "logging.getLogger('train').handlers[0].buffer.clear()",
        path=("args",),
        made_by=2,
        target="leak",
    ),
    Scenario(
        "what a log record was given to keep",
        "forgotten_reference",
        "log_record",
        """
        import logging, logging.handlers
        def start():
            handler = logging.handlers.MemoryHandler(1000)
            logging.getLogger("eval").addHandler(handler)
            logging.getLogger("eval").propagate = False
            later(lambda: logging.getLogger("eval").handlers.clear())
        start()
        def report(**more): logging.getLogger("eval").error("done", extra=more)
        # %%
        report(logits=probe(torch.ones(2**18)))
        """,
        ("report(logits=probe(torch.ones(2**18)))", "report(shape=probe(torch.ones(2**18)).shape)"),
        "logging.getLogger('eval').handlers[0].buffer.clear()",
        path=("logits",),
        made_by=2,
        target="leak",
    ),
    Scenario(
        "a tensor that only C++ knows",
        "forgotten_reference",
        "cpp",
        """
        def send():
            aside("unseen", Unseen(torch.utils.dlpack.to_dlpack(probe(torch.ones(2**18)))))
        # %%
        send()
        """,
        (
            '    aside("unseen", Unseen(torch.utils.dlpack.to_dlpack(probe(torch.ones(2**18)))))',
            '    aside("unseen", probe(torch.ones(2**18)).shape)',
        ),
        "ASIDE.clear()",
        made_by=2,
        target="refused",
    ),
    Scenario(
        "the result of a future of torch's",
        "forgotten_reference",
        "cpp",
        """
        def send():
            done = aside("done", torch.futures.Future())
            done.set_result(probe(torch.ones(2**18)))
        # %%
        send()
        """,
        (
            "    done.set_result(probe(torch.ones(2**18)))",
            "    done.set_result(probe(torch.ones(2**18)).sum())",
        ),
        "ASIDE.clear()",
        made_by=2,
        target="refused",
    ),
    Scenario(
        "a reference that an extension forgot to give back",
        "forgotten_reference",
        "cpp",
        """
        later(give_back)
        # %%
        lost = torch.ones(2**18)
        lose(probe(lost))
        del lost
        """,
        ("lose(probe(lost))", "probe(lost).shape"),
        "give_back()",
        made_by=2,
        target="refused",
    ),
)
