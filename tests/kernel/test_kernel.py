"""nbmem in a real kernel: what a notebook's front end sends and gets."""

from __future__ import annotations

from kernel_reports import last_record, reports_in


def test_cell_report_comes_after_the_value_and_carries_text_and_html(kernel):
    reply, outputs = kernel.run("%%gpumem first\nx = torch.zeros(25)\nx.numel()", cell_id="id-1")
    assert "ok" == reply["status"]
    kinds = [message["msg_type"] for message in outputs if message["msg_type"] != "execute_input"]
    assert ["execute_result", "display_data"] == kinds
    (report,) = reports_in(outputs)
    assert "first" in report
    assert f"[{reply['execution_count']}]" in report
    told = last_record(kernel, "r.cell_id, r.devices['cpu'].delta, r.execution_count")
    assert f"('id-1', 100, {reply['execution_count']})" == told


def test_front_end_without_cell_ids(kernel):
    kernel.run("%%gpumem\nx = torch.zeros(25)")
    assert "(None, 100)" == last_record(kernel, "r.cell_id, r.devices['cpu'].delta")


def test_wrong_option_stops_run_all(kernel):
    reply, _outputs = kernel.run("%%gpumem --bad\nran = True")
    assert ("error", "UsageError") == (reply["status"], reply["ename"])
    assert "False" == kernel.value("'ran' in globals()")


def test_completeness_request_is_answered_for_any_first_line(kernel):
    for code in ("%%gpumem --bad", "%%gpumem 'open", "%%gpumem", "%%gpumem -o"):
        request = kernel.client.is_complete(code)
        assert "incomplete" == kernel.reply_to(request)["status"]


def test_silent_request_and_user_expressions_are_not_recorded(kernel):
    kernel.run("%gpumem on")
    kernel.run("x = torch.zeros(25)", silent=True, store_history=False)
    kernel.value("torch.zeros(25).numel()")
    assert "[]" == kernel.value("[r.first_line for r in nbmem.get_history().records()]")


def test_interrupt_of_a_running_cell(kernel):
    def interrupt(message):
        if message["msg_type"] == "stream":
            kernel.manager.interrupt_kernel()

    reply, outputs = kernel.run(
        "%%gpumem\nx = torch.zeros(25)\nprint('begun', flush=True)\nwhile True: pass",
        on_output=interrupt,
    )
    assert ("error", "KeyboardInterrupt") == (reply["status"], reply["ename"])
    assert "('interrupted', 100)" == last_record(kernel, "r.status, r.devices['cpu'].delta")
    assert "interrupted" in reports_in(outputs)[0]


def test_interrupt_of_a_cell_that_awaits(kernel):
    def interrupt(message):
        if message["msg_type"] == "stream":
            kernel.manager.interrupt_kernel()

    reply, _ = kernel.run(
        "%%gpumem\nimport asyncio\nx = torch.zeros(25)\nprint('begun', flush=True)\n"
        # ipykernel notices Ctrl-C when its event loop wakes
        "while True: await asyncio.sleep(0.01)",
        on_output=interrupt,
    )
    assert "error" == reply["status"]
    assert "('interrupted', 100)" == last_record(kernel, "r.status, r.devices['cpu'].delta")
    reply, _ = kernel.run("%%gpumem\ny = torch.zeros(50)")
    assert "('ok', 200)" == last_record(kernel, "r.status, r.devices['cpu'].delta")


def test_task_that_goes_on_between_cells_is_counted_where_it_is_seen(kernel):
    kernel.run(
        "import asyncio\nheld, go, done = [], asyncio.Event(), asyncio.Event()\n"
        "async def later():\n"
        "    await go.wait()\n    held.append(torch.zeros(1000))\n    done.set()\n"
        "task = asyncio.ensure_future(later())"
    )
    kernel.run("%%gpumem\na = torch.zeros(25)\ngo.set()")
    # the task allocates after this cell or during the next; it must not be lost or counted twice
    kernel.run("await done.wait()")
    kernel.run("%%gpumem -q\nb = torch.zeros(50)")
    kernel.run("%%gpumem -q\ndel a, b")
    told = kernel.value(
        "[(r.devices['cpu'].delta, r.devices['cpu'].unattributed, r.freed.get('cpu', 0))"
        " for r in nbmem.get_history().records()[-2:]]"
    )
    assert "[(200, 0, 0), (-300, 0, 300)]" == told


def test_system_exit_in_a_cell(kernel):
    kernel.run("%%gpumem\nx = torch.zeros(25)\nraise SystemExit(1)")
    assert "'error'" == last_record(kernel, "r.status")


def test_unload_and_load_again(kernel):
    reply, _ = kernel.run("%unload_ext nbmem")
    assert "ok" == reply["status"]
    reply, _ = kernel.run("%%gpumem\n1")
    assert "error" == reply["status"]
    kernel.run("%load_ext nbmem")
    reply, outputs = kernel.run("%%gpumem\nx = torch.zeros(25)")
    assert 1 == len(reports_in(outputs))


def test_setting_in_the_notebook_changes_the_report(kernel):
    kernel.run("%config NbMem.units = 'SI'")
    _, outputs = kernel.run("%%gpumem\nx = torch.zeros(250_000)")
    assert "MB" in reports_in(outputs)[0]
    kernel.run("%config NbMem.units = 'IEC'")
    _, outputs = kernel.run("%%gpumem\ny = torch.zeros(250_000)")
    assert "KiB" in reports_in(outputs)[0]


def test_autosaved_history_outlives_a_kernel_that_the_system_kills(kernel, tmp_path):
    path = tmp_path / "history.jsonl"
    kernel.run(
        "import subprocess, sys\n"
        "script = '''\n"
        "import os, signal, sys\n"
        "from IPython.core.interactiveshell import InteractiveShell\n"
        "shell = InteractiveShell.instance()\n"
        "for cell in ('%load_ext nbmem', 'import torch',\n"
        "             '%config NbMem.autosave = ' + repr(sys.argv[1]),\n"
        "             '%%gpumem -q last words\\\\nx = torch.zeros(25)'):\n"
        "    shell.run_cell(cell, store_history=True).raise_error()\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
        "'''\n"
        f"killed = subprocess.run([sys.executable, '-c', script, {str(path)!r}]).returncode\n"
        f"nbmem.get_history().load({str(path)!r})"
    )
    assert "-9" == kernel.value("killed")
    told = last_record(kernel, "r.label, r.devices['cpu'].delta")
    assert "('last words', 100)" == told
