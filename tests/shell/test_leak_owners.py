"""One hook, one error: told once, by one name, however many ways lead to it."""

import pytest

import nbmem

KIB = 1024
HOOKED = """
def watch(tensor):
    kept = []
    tensor.register_hook(lambda gradient: kept.append(gradient.clone()))
"""


@pytest.fixture
def shell(notebook):
    notebook.run("from torch import nn; import asyncio, sys")
    notebook.run("%config NbMem.leak_threshold = 1000")
    return notebook


def run(shell, source):
    result = shell.run(source)
    assert result.error_in_exec is None
    assert result.error_before_exec is None


@pytest.mark.parametrize(
    ("model", "weight", "name"),
    [
        ("nn.Sequential(nn.Linear(16, 16))", "net[0].weight", "net.0.weight"),
        (
            "nn.Sequential(nn.Sequential(nn.Sequential(nn.Sequential(nn.Linear(16, 16)))))",
            "net[0][0][0][0].weight",
            "net.0.0.0.0.weight",
        ),
    ],
)
@pytest.mark.parametrize("first", ["net", "opt"])
def test_a_hook_of_a_parameter_has_the_name_that_the_model_gives(shell, model, weight, name, first):
    made = [f"net = {model}", "opt = torch.optim.Adam(net.parameters())"]
    if first == "opt":
        made = [f"build = {model}", "opt = torch.optim.Adam(build.parameters())", "net = build"]
        made.append("del build")
    run(shell, "\n".join(made))
    run(shell, f"{HOOKED}\nwatch({weight})")
    run(
        shell,
        "for _ in range(3):\n"
        "    opt.zero_grad(); net(torch.ones(2, 16)).sum().backward(); opt.step()",
    )
    (leak,) = (leak for leak in nbmem.find_leaks() if leak.sources)
    assert 3 * KIB == leak.bytes
    hook = f"hook '<lambda>' on {name}"
    assert f'%gpumem reclaim "{hook}"' == leak.instead
    assert (hook,) == leak.sources
    run(shell, leak.instead)
    assert 0 == len(shell.names["net"].get_parameter(name.removeprefix("net."))._backward_hooks)
    assert [] == [leak for leak in nbmem.find_leaks() if leak.sources]


def test_a_hook_of_a_layer_with_two_names_is_one(shell):
    run(shell, "net = nn.Sequential(nn.Linear(16, 16)); layer = net[0]; parts = {'first': layer}")
    run(
        shell,
        "def watch(module):\n    kept = []\n"
        "    module.register_forward_hook(lambda m, i, out: kept.append(out.detach().clone()))",
    )
    run(shell, "watch(layer); net(torch.ones(16, 16));")
    (leak,) = nbmem.find_leaks()
    assert KIB == leak.bytes
    assert ("hook '<lambda>' on layer",) == leak.sources
    run(shell, leak.instead)
    assert 0 == len(shell.names["layer"]._forward_hooks)
    assert () == tuple(nbmem.find_leaks())


def test_the_same_function_on_two_tensors_is_two_hooks(shell):
    run(shell, "net = nn.Linear(16, 16)")
    run(
        shell,
        "def watch():\n    kept = []\n    add = lambda gradient: kept.append(gradient.clone())\n"
        "    net.weight.register_hook(add); net.bias.register_hook(add)\nwatch()",
    )
    run(shell, "opt = torch.optim.SGD(net.parameters())\nnet(torch.ones(2, 16)).sum().backward()")
    (leak,) = nbmem.find_leaks()
    assert {f"hook '<lambda>' on net.{part}" for part in ("weight", "bias")} == set(leak.sources)


JOB = """
async def job(x):
    a = x * 3
    await asyncio.sleep(0)
    raise IndexError('q')
def fail(x):
    a = x * 3
    raise IndexError('q')
"""


@pytest.mark.parametrize(
    ("made", "cuts"),
    [
        (
            "kept = [asyncio.create_task(job(torch.ones(16, 16)))]\nawait asyncio.sleep(0.01)",
            ("kept[0]._exception",),
        ),
        (
            "loop = asyncio.new_event_loop()\nkept = asyncio.futures._PyFuture(loop=loop)\n"
            "loop.close()\n"
            "try: fail(torch.ones(16, 16))\nexcept IndexError as e: kept.set_exception(e)",
            ("kept._exception", "kept._exception_tb"),
        ),
        (
            "kept = []\n"
            "try: fail(torch.ones(16, 16))\nexcept IndexError: kept.append(sys.exc_info())",
            ("kept[0][1]", "kept[0][2]"),
        ),
        (
            "kept = {}\ntry: fail(torch.ones(16, 16))\n"
            "except IndexError as e: kept.update(error=e, where=e.__traceback__)",
            ("kept['error']", "kept['where']"),
        ),
    ],
)
def test_an_error_is_held_once_by_each_place_that_has_a_name(shell, made, cuts):
    run(shell, JOB)
    run(shell, made)
    (leak,) = nbmem.find_leaks()
    assert ("stale_error", cuts, 2 * KIB) == (leak.kind, leak.cuts, leak.bytes)
    before = sum(storage.bytes for storage in nbmem.list_storages())
    run(shell, leak.remedy)
    assert before - leak.bytes == sum(storage.bytes for storage in nbmem.list_storages())
    assert () == tuple(nbmem.find_leaks())


def test_two_failed_tasks_are_two_leaks_and_go_as_promised(shell):
    run(shell, JOB)
    run(
        shell,
        "tasks = [asyncio.create_task(job(torch.ones(16, 16))) for _ in range(2)]\n"
        "await asyncio.sleep(0.01)",
    )
    found = nbmem.find_leaks()
    assert {f"tasks[{at}]._exception" for at in range(2)} == {leak.cuts[0] for leak in found}
    report = nbmem.reclaim_memory(found)
    assert (4 * KIB, 4 * KIB) == (report.promised, report.freed)
    assert ["IndexError('q')"] * 2 == [repr(t.exception()) for t in shell.names["tasks"]]


def test_a_traceback_without_its_error_is_told_by_its_own_name(shell):
    run(shell, JOB)
    run(shell, "try: fail(torch.ones(16, 16))\nexcept IndexError as e: where = e.__traceback__")
    (leak,) = nbmem.find_leaks()
    assert ("stale_error", ("where",), 2 * KIB) == (leak.kind, leak.cuts, leak.bytes)


def test_the_traceback_of_another_error_is_a_holder_of_its_own(shell):
    run(shell, JOB)
    run(shell, "kept = {'error': ValueError('other')}")
    run(
        shell, "try: fail(torch.ones(16, 16))\nexcept IndexError as e: kept['at'] = e.__traceback__"
    )
    (leak,) = nbmem.find_leaks()
    assert (("kept['at']",), 2 * KIB) == (leak.cuts, leak.bytes)
