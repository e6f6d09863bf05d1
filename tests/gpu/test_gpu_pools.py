"""The allocator's private pools by owner: who keeps them, under which name, and what frees them."""

import gc
import re

import pytest
import torch
from torch import nn

import nbmem
from nbmem.session import current_session

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA GPU here"),
    pytest.mark.filterwarnings("ignore:The AccumulateGrad node's stream"),
]

MIB = 2**20


def segments():
    """Bytes of the private pools of cuda:0 by id, as torch's own snapshot has them."""
    found = {}
    for segment in torch.cuda.memory_snapshot():
        if segment["device"] == 0 and segment["segment_pool_id"] != (0, 0):
            pool = tuple(segment["segment_pool_id"])
            found[pool] = found.get(pool, 0) + segment["total_size"]
    return found


@pytest.fixture
def names(shell):
    gc.collect()
    torch.zeros(1, device="cuda")
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    assert {} == segments(), "another test left a pool"
    shell.run_line_magic("load_ext", "nbmem")
    before = set(shell.user_ns)
    yield shell.user_ns
    for name in set(shell.user_ns) - before:
        del shell.user_ns[name]
    gc.collect()
    torch._C._cuda_clearCublasWorkspaces()
    torch.cuda.empty_cache()


def pools():
    """The pools that the ledger tells, by id; they add up to what is private."""
    (ledger,) = [each for each in nbmem.take_ledger().devices if each.device == "cuda:0"]
    assert segments() == {pool.pool: pool.reserved for pool in ledger.pools}
    return {pool.pool: pool for pool in ledger.pools}


def owners_of(pool):
    return [(owner.kind, owner.name) for owner in pools()[pool].owners]


def captured(pool=None):
    x = torch.ones(1000, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool):
        y = x * 2
    return graph, y


def use(pool, size=MIB):
    with torch.cuda.use_mem_pool(pool):
        return torch.empty(size, dtype=torch.uint8, device="cuda")


def follow(remedy, names):
    """Runs the code that stands in a remedy."""
    for code in re.findall(r"`([^`]+)`", remedy):
        exec(code, {"torch": torch, "gc": gc} | globals(), names)


def test_a_pool_has_the_name_of_the_variable_that_keeps_it(names):
    names["pool"] = torch.cuda.MemPool()
    names["w"] = use(names["pool"], 3 * MIB)
    pool = names["pool"].id
    assert [("MemPool", "pool")] == owners_of(pool)
    assert 3 * MIB == pools()[pool].allocated
    remedy = pools()[pool].remedy
    assert "drop the tensors in it" in remedy
    del names["w"]
    assert "`del pool`, then `torch.cuda.empty_cache()`" == pools()[pool].remedy
    torch.cuda.empty_cache()
    assert pool in segments(), "a pool that is kept keeps its memory"
    follow(remedy, names)
    assert {} == segments() == pools()


def test_graphs_of_one_pool_are_all_named(names):
    first, y = captured()
    second, z = captured(first.pool())
    names["runner"] = type("Runner", (), {})()
    names["runner"].graphs = {"a": first, "b": second}
    pool = first.pool()
    told = [("CUDA graph", "runner.graphs['a']"), ("CUDA graph", "runner.graphs['b']")]
    assert told == owners_of(pool)
    remedy = pools()[pool].remedy
    del first, second, y, z
    follow(remedy, names)
    assert {} == segments()


def test_a_pool_that_nobody_keeps_is_told_as_such(names):
    pool = torch.cuda.MemPool()
    names["w"] = use(pool)
    number = pool.id
    del pool
    assert [] == owners_of(number)
    assert "drop the tensors in it, then `torch.cuda.empty_cache()`" == pools()[number].remedy
    del names["w"]
    assert (0, "`torch.cuda.empty_cache()`") == (pools()[number].allocated, pools()[number].remedy)
    torch.cuda.empty_cache()
    assert {} == segments()


def test_what_no_name_leads_to_is_kept_by_an_object_without_a_name(names):
    graph, _y = captured()
    assert [("CUDA graph", None)] == owners_of(graph.pool())
    assert "" == pools()[graph.pool()].remedy


def test_a_graph_that_was_reset_keeps_no_pool(names):
    names["graph"], names["y"] = captured()
    pool = names["graph"].pool()
    assert [("CUDA graph", "graph")] == owners_of(pool)
    names["graph"].reset()
    assert [] == owners_of(pool)


def test_a_graphed_module_is_named_by_its_forward(names):
    names["net"], example = nn.Linear(10, 10).cuda(), torch.ones(5, 10, device="cuda")
    torch.cuda.make_graphed_callables(names["net"], (example,))
    (pool,) = segments()
    assert [("graphed callable", "net.forward")] == owners_of(pool)
    follow(pools()[pool].remedy, names)
    assert {} == segments()
    assert (5, 10) == names["net"](example).shape, "the module works without its graphs"


def test_a_graphed_function_is_named_by_its_variable(names):
    example = torch.ones(5, 10, device="cuda", requires_grad=True)
    names["double"] = torch.cuda.make_graphed_callables(lambda a: a * 2, (example,))
    (pool,) = segments()
    assert [("graphed callable", "double")] == owners_of(pool)
    follow(pools()[pool].remedy, names)
    assert {} == segments()


def test_the_graphs_of_torch_compile_have_their_manager_as_owner(names):
    trees = pytest.importorskip("torch._inductor.cudagraph_trees")
    manager = object.__new__(trees.CUDAGraphTreeManager)
    manager.cuda_graphs_thread_pool = torch.cuda.graph_pool_handle()
    manager.graph, _y = captured(manager.cuda_graphs_thread_pool)
    pool = tuple(manager.cuda_graphs_thread_pool)
    assert [("torch.compile", None)] == owners_of(pool)
    assert pools()[pool].remedy.startswith("`torch.compiler.reset()`")
    manager.graph.reset()


def test_no_code_of_a_subclass_runs(names):
    class Pool(torch.cuda.MemPool):
        @property
        def id(self):
            raise AssertionError("nbmem ran it")

    names["mine"] = Pool()
    number = torch.cuda.MemPool.id.fget(names["mine"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Pool, "id", property(torch.cuda.MemPool.id.fget))
        names["w"] = use(names["mine"])
    assert [("MemPool", "mine")] == owners_of(number)


def test_the_ledger_prints_them(names):
    from IPython.utils.capture import capture_output

    names["scratch"] = torch.cuda.MemPool()
    names["w"] = use(names["scratch"])
    with capture_output() as captured_output:
        current_session().shell.run_line_magic("gpumem", "ledger")
    lines = captured_output.outputs[0].data["text/plain"].splitlines()
    begin = lines.index("Private pools · 2.00 MiB in 1 pool")
    (row,) = [line for line in lines[begin:] if line.endswith("  scratch")]
    assert ["2.00", "1.00", str(names["scratch"].id), "scratch"] == re.split(r"\s{2,}", row.strip())
    assert any("`del scratch`" in line for line in lines[begin:])
