"""Leaks of what runs beside the notebook: threads, queues, futures, tasks, contexts."""

from __future__ import annotations

from leak_scene import Scenario

CONCURRENT = (
    Scenario(
        "a thread that waits",
        "forgotten_reference",
        "thread",
        """
        import threading
        def work(go, began):
            batch = probe(torch.ones(2**18))
            began.set()
            go.wait()
        def start():
            go, began = threading.Event(), threading.Event()
            thread = threading.Thread(target=work, args=(go, began), name="loader", daemon=True)
            thread.start(); began.wait()
            later(aside("stop", lambda: (go.set(), join("loader"))))
        # %%
        start()
        """,
        ("    batch = probe(torch.ones(2**18))", "    batch = probe(torch.ones(2**18)).shape"),
        "ASIDE['stop']();",
        path=("thread", "loader", "work()", "'batch'"),
        made_by=2,
        target="refused",
    ),
    Scenario(
        "the arguments of a timer",
        "forgotten_reference",
        "thread",
        """
        import threading
        def start():
            timer = threading.Timer(3600, print, [probe(torch.ones(2**18))])
            timer.name = "saver"; timer.daemon = True
            timer.start()
            def stop(ident=timer.ident):
                for thread in threading.enumerate():
                    if thread.ident == ident: thread.cancel(); thread.join(); thread.args = []
            later(aside("stop", stop))
        # %%
        start()
        """,
        (
            "    timer = threading.Timer(3600, print, [probe(torch.ones(2**18))])",
            "    timer = threading.Timer(3600, print, [probe(torch.ones(2**18)).shape])",
        ),
        "ASIDE['stop']();",
        path=("thread", "saver"),
        made_by=2,
        target="refused",
    ),
    Scenario(
        "a queue that only a thread knows",
        "forgotten_reference",
        "queue",
        """
        import queue, threading
        def work(jobs, go):
            go.wait()
            jobs = None
        def start():
            jobs, go = queue.Queue(), threading.Event()
            jobs.put(probe(torch.ones(2**18)))
            thread = threading.Thread(target=work, args=(jobs, go), name="worker", daemon=True)
            thread.start()
            later(aside("stop", lambda: (go.set(), join("worker"))))
        # %%
        start()
        """,
        (
            "    jobs.put(probe(torch.ones(2**18)))",
            "    jobs.put(probe(torch.ones(2**18)).shape)",
        ),
        "ASIDE['stop']();",
        path=("worker",),
        made_by=2,
        target="found",
    ),
    Scenario(
        "a queue in a closure",
        "forgotten_reference",
        "queue",
        """
        import queue
        def make():
            jobs = queue.SimpleQueue()
            def send(value):
                jobs.put(value)
            return send
        send = make()
        # %%
        send(probe(torch.ones(2**18)))
        """,
        ("        jobs.put(value)", "        jobs.put(value.shape)"),
        "send.__closure__[0].cell_contents.get();",
        path=("send", "'jobs'"),
        made_by=2,
        target="leak",
        after="told = send(torch.ones(3))",
    ),
    Scenario(
        "a future that only a thread knows",
        "forgotten_reference",
        "future",
        """
        import concurrent.futures, threading
        def work(job, go):
            go.wait()
        def start():
            job, go = concurrent.futures.Future(), threading.Event()
            job.set_result(probe(torch.ones(2**18)))
            thread = threading.Thread(target=work, args=(job, go), name="waiter", daemon=True)
            thread.start()
            later(aside("stop", lambda: (go.set(), join("waiter"))))
        # %%
        start()
        """,
        (
            "    job.set_result(probe(torch.ones(2**18)))",
            "    job.set_result(probe(torch.ones(2**18)).shape)",
        ),
        "ASIDE['stop']();",
        path=("waiter",),
        made_by=2,
        target="refused",
    ),
    Scenario(
        "a task that waits",
        "forgotten_reference",
        "async_task",
        """
        import asyncio
        go = asyncio.Event()
        async def work():
            batch = probe(torch.ones(2**18))
            await go.wait()
        # %%
        asyncio.ensure_future(work()).set_name('evaluate')
        await asyncio.sleep(0)
        loop = asyncio.get_running_loop()
        later(lambda: (go.set(), [loop.run_until_complete(asyncio.sleep(0)) for _ in "12"]))
        # %%
        number = 1
        # %%
        number += 1
        """,
        ("    batch = probe(torch.ones(2**18))", "    batch = probe(torch.ones(2**18)).shape"),
        "[loop.run_until_complete(asyncio.sleep(0)) for _ in (go.set(), 1)]",
        path=("task", "evaluate", "'batch'"),
        made_by=2,
        target="refused",
    ),
    Scenario(
        "a context variable whose name is gone",
        "forgotten_reference",
        "context_variable",
        """
        import contextvars
        def start():
            current = contextvars.ContextVar("current")
            current.set(probe(torch.ones(2**18)))
            later(aside("reset", lambda: current.set(None)))
        # %%
        start()
        """,
        (
            "    current.set(probe(torch.ones(2**18)))",
            "    current.set(probe(torch.ones(2**18)).shape)",
        ),
        "ASIDE['reset']();",
        path=("current",),
        made_by=2,
        target="leak",
    ),
)
