"""Names of what a user may put in an inventory's way: nothing of the user's may run or be kept."""

from __future__ import annotations

import collections
import contextlib
import weakref
from unittest import mock

import pytest
import torch
from torch import nn
from torch._subclasses import FakeTensorMode

from nbmem.heap import StorageTable
from nbmem.inventory import resolve_name, take_inventory


def records_of(tensor, namespace, **options):
    """Returns the records that stand for the tensor's storage: exactly one is right."""
    table = StorageTable()
    inventory = take_inventory(table, namespace, budget=60, now=0.0, **options)
    serial = table.find(tensor.untyped_storage()).serial
    return [record for record in inventory.storages if record.key == serial]


def names_of(tensor, namespace):
    (record,) = records_of(tensor, namespace)
    return record.names


class Trap(BaseException):
    """Passes every `except Exception`: user code that ran can't be hidden."""


def spring(*_, **__):
    raise Trap


HOOKS = (
    "__repr__",
    "__str__",
    "__getattr__",
    "__getattribute__",
    "__iter__",
    "__len__",
    "__eq__",
    "__hash__",
    "__bool__",
    "__contains__",
    "__getitem__",
    "__reversed__",
    "__dir__",
    "__sizeof__",
    "__format__",
    "__index__",
    "keys",
    "values",
    "items",
    "get",
    "copy",
)


def armed(*bases, **more):
    """Returns a class whose every method raises `Trap`."""
    body = dict.fromkeys(HOOKS, spring) | {"__class__": property(spring)} | more
    return type("Armed", bases, body)


@contextlib.contextmanager
def disarmed(cls):
    """Takes the traps out, so that the test can look inside and tear down."""
    try:
        yield
    finally:
        for name in (*HOOKS, "__class__", "__dict__"):
            with contextlib.suppress(AttributeError, TypeError):
                delattr(cls, name)


def test_no_method_of_a_plain_object_runs():
    cls = armed()
    trap, x = cls(), torch.ones(3)
    object.__setattr__(trap, "held", x)
    with disarmed(cls):
        assert ("trap.held",) == names_of(x, {"trap": trap})


@pytest.mark.parametrize(
    ("base", "fill", "name"),
    [
        (dict, lambda box, x: dict.__setitem__(box, "k", x), "box['k']"),
        (collections.OrderedDict, lambda box, x: dict.__setitem__(box, "k", x), "box['k']"),
        (list, list.append, "box[0]"),
        (set, set.add, "list(box)[0]"),
        (collections.deque, collections.deque.append, "box[0]"),
    ],
)
def test_no_method_of_a_container_of_the_users_runs(base, fill, name):
    cls = armed(base)
    box, x = cls(), torch.ones(3)
    fill(box, x)
    with disarmed(cls):
        assert (name,) == names_of(x, {"box": box})


def test_no_method_of_a_tuple_of_the_users_runs():
    cls = armed(tuple)
    x = torch.ones(3)
    box = tuple.__new__(cls, (1, x))
    with disarmed(cls):
        assert ("box[1]",) == names_of(x, {"box": box})


def test_no_method_of_a_module_of_the_users_runs():
    class Sneaky(nn.Linear):
        pass

    model = Sneaky(2, 2)
    weight = model.weight
    for name in (*HOOKS, "parameters", "named_parameters", "modules", "children", "state_dict"):
        setattr(Sneaky, name, spring)
    Sneaky.cached = property(spring)
    with disarmed(Sneaky):
        assert ("m.weight",) == names_of(weight, {"m": model})


def test_no_property_is_read_and_slots_are():
    class Slotted:
        __slots__ = ("_x", "unset")

        @property
        def x(self):
            raise Trap

    slotted, x = Slotted(), torch.ones(3)
    slotted._x = x
    assert ("s._x",) == names_of(x, {"s": slotted})


def test_a_dict_property_that_lies_is_not_believed():
    class Liar:
        @property
        def __dict__(self):
            raise Trap

    class Honest:
        pass

    class Both(Honest):
        @property
        def __dict__(self):
            raise Trap

    both, liar, x = Both(), Liar(), torch.ones(3)
    both.held, liar.held = x, x
    assert ("both.held",) == names_of(x, {"liar": liar, "both": both})


def test_a_class_that_claims_to_be_a_tensor_is_none():
    class Pretender:
        __class__ = torch.Tensor

    inventory = take_inventory(
        StorageTable(),
        {"p": Pretender(), "m": mock.MagicMock(spec=torch.Tensor)},
        budget=60,
        now=0.0,
    )
    assert [] == [r for r in inventory.storages if {"p", "m"} & set(r.names)]


def test_keys_with_code_in_their_hash_and_repr_are_named_by_position():
    class Key:
        def __init__(self, armed):
            self.armed = False
            self.calls = 0

        def __hash__(self):
            self.calls += 1
            return 7

        def __eq__(self, other):
            self.calls += 1
            return self is other

        def __repr__(self):
            self.calls += 1
            return "'x'"

    first, second, x = Key(True), Key(True), torch.ones(3)
    book = {first: 1, second: x}
    before = first.calls, second.calls
    assert ("list(book.values())[1]",) == names_of(x, {"book": book})
    assert before == (first.calls, second.calls)


def test_a_string_of_the_users_own_kind_is_no_name():
    class Text(str):
        __slots__ = ()

        def __repr__(self):
            raise Trap

        __str__ = __format__ = __repr__

    x = torch.ones(3)
    assert ("list(book.values())[0]",) == names_of(x, {"book": {Text("key"): x}})


def test_a_metaclass_with_code_in_it_is_not_run():
    class Meta(type):
        def __hash__(cls):
            raise Trap

        def __eq__(cls, other):
            raise Trap

        def __instancecheck__(cls, other):
            raise Trap

        def __subclasscheck__(cls, other):
            raise Trap

        def __getattribute__(cls, name):
            raise Trap

        def mro(cls):
            return type.mro(cls)

    Odd = Meta("Odd", (), {})
    odd, x = object.__new__(Odd), torch.ones(3)
    object.__setattr__(odd, "held", x)
    assert ("odd.held",) == names_of(x, {"odd": odd})


def test_a_named_tuple_that_lies_about_its_fields_is_named_by_position():
    class Liar(tuple):
        __slots__ = ()
        _fields = ("a", "b")

    x = torch.ones(3)
    assert ("t[1]",) == names_of(x, {"t": Liar((1, x))})


def test_a_tensor_class_with_code_in_it_is_listed_and_its_code_does_not_run():
    class Loud(torch.Tensor):
        quiet = True

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            if not cls.quiet:
                raise Trap
            return super().__torch_function__(func, types, args, kwargs or {})

        @property
        def grad(self):
            raise Trap

        @property
        def shape(self):
            raise Trap

        def untyped_storage(self):
            raise Trap

    plain = torch.ones(91)
    loud = plain.as_subclass(Loud)
    Loud.quiet = False
    try:
        (record,) = records_of(plain, {"loud": loud})
    finally:
        Loud.quiet = True
    assert (("loud",), (91,), 2) == (record.names, record.shape, record.views)


def test_function_and_dispatch_modes_of_the_users_do_not_run():
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode

    class Function(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            raise Trap

    class Dispatch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            raise Trap

    x = torch.ones(3, requires_grad=True)
    namespace = {"x": x, "loss": x.exp().sum(), "s": torch.eye(2).to_sparse()}
    table = StorageTable()
    with Dispatch(), Function():
        inventory = take_inventory(table, namespace, budget=60, now=0.0)
        found = resolve_name("loss → graph[1] ExpBackward0.result", namespace)
    names = {name for record in inventory.storages for name in record.names}
    assert {"x", "s (values)", "loss → graph[1] ExpBackward0.result"} <= names
    assert (3,) == tuple(found.shape)


def test_a_dead_proxy_is_walked_past():
    class Target:
        pass

    target, x = Target(), torch.ones(3)
    proxy = weakref.proxy(target)
    del target
    assert ("box[1]",) == names_of(x, {"proxy": proxy, "box": [proxy, x]})


def test_markup_in_a_key_is_kept_as_it_is():
    x = torch.ones(3)
    markup = "<img src=x onerror=alert(1)>"
    assert (f"d['{markup}']",) == names_of(x, {"d": {markup: x}})


def test_a_key_of_ten_thousand_characters_is_kept_whole():
    x = torch.ones(3)
    key = "k" * 10_000
    assert (f"d['{key}']",) == names_of(x, {"d": {key: x}})


def test_long_keys_above_many_tensors_stop_at_a_stated_length():
    many = [torch.ones(1) for _ in range(800)]
    inventory = take_inventory(StorageTable(), {"d": {"k" * 100_000: many}}, budget=60, now=0.0)
    (note,) = [note for note in inventory.notes if note.field == "names"]
    assert ("budget", "Names incomplete: budget of 64,000,000 characters") == (
        note.code,
        note.sentence,
    )
    named = [record for record in inventory.storages if record.names]
    # the list's own name takes 100,005 characters, those of its tensors three to five more each:
    # 639 of them and the list's own are the first to be more than 64,000,000
    assert 639 == len(named)


def test_a_variable_that_is_no_identifier_is_named_through_globals():
    x = torch.ones(3)
    assert ("globals()['a b']",) == names_of(x, {"a b": x})


def test_a_cycle_of_containers_ends():
    x = torch.ones(3)
    ring = [x]
    ring.append({"ring": ring})
    try:
        assert ("ring[0]",) == names_of(x, {"ring": ring})
    finally:
        ring.clear()


def test_a_list_a_thousand_deep_is_walked_to_its_end():
    x = torch.ones(3)
    deep = [x]
    for _ in range(999):
        deep = [deep]
    assert ("deep" + "[0]" * 1000,) == names_of(x, {"deep": deep})


def test_a_list_that_is_deeper_than_the_walk_goes_says_so():
    x = torch.ones(3)
    deep = [x]
    for _ in range(2000):
        deep = [deep]
    table = StorageTable()
    inventory = take_inventory(table, {"deep": deep}, budget=60, now=0.0)
    assert ["Names incomplete: budget of 1,100 steps"] == [
        note.sentence for note in inventory.notes if note.field == "names"
    ]
    (record,) = [r for r in inventory.storages if r.key == table.find(x.untyped_storage()).serial]
    assert ("unknown", ()) == (record.category, record.names)


def test_a_namespace_of_fifty_thousand_names_is_walked():
    x = torch.ones(3)
    namespace = {f"v{n}": [n] for n in range(50_000)} | {"x": x}
    assert ("x",) == names_of(x, namespace)


def test_what_a_long_list_holds_deeper_down_is_named_after_all_else():
    x = torch.ones(3)
    rows = [[n] for n in range(2_000)]
    rows[7].append(x)
    assert ("a[0][0][0]", "rows[7][1]") == names_of(x, {"rows": rows, "a": [[[x]]]})


def test_lazy_modules_and_parameters_not_yet_made_are_walked_past():
    lazy, x = nn.LazyLinear(3), torch.ones(3)
    assert ("x",) == names_of(x, {"lazy": lazy, "p": nn.UninitializedParameter(), "x": x})


def test_fake_and_meta_tensors_are_not_listed():
    with FakeTensorMode():
        fake = torch.empty(1 << 40)
    meta = torch.empty(1 << 40, device="meta")
    inventory = take_inventory(StorageTable(), {"f": fake, "m": [meta]}, budget=60, now=0.0)
    assert [] == [r for r in inventory.storages if r.names]
    assert sum(record.bytes for record in inventory.storages) < 1 << 40


def test_a_wrapper_is_not_counted_beside_what_it_wraps():
    from torch.testing._internal.two_tensor import TwoTensor

    a, b = torch.ones(93), torch.ones(93)
    namespace = {"both": TwoTensor(a, b)}
    assert ("both.a",) == names_of(a, namespace)
    assert ("both.b",) == names_of(b, namespace)
    inventory = take_inventory(StorageTable(), namespace, budget=60, now=0.0)
    assert 2 == len([r for r in inventory.storages if r.bytes == 93 * 4])


def test_a_jagged_tensor_is_named_by_what_it_holds():
    jagged = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged)
    assert ("j._values",) == names_of(jagged._values, {"j": jagged})


def test_a_quantized_tensor_counts_its_scales_too():
    scales, points = torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64), torch.zeros(3).long()
    tensor = torch.quantize_per_channel(torch.eye(3), scales, points, 0, torch.qint8)
    inventory = take_inventory(StorageTable(), {"q": tensor}, budget=60, now=0.0)
    sizes = {r.names: (r.bytes, r.dtype) for r in inventory.storages if r.names}
    assert {
        ("q",): (9, "qint8"),
        ("q (scales)",): (24, "float64"),
        ("q (zero points)",): (24, "int64"),
    } == sizes


def test_an_object_that_breaks_the_walk_is_a_note_and_no_error(monkeypatch):
    class Broken(list):
        pass

    def refuse(*_):
        raise MemoryError

    from nbmem.inventory import walk

    monkeypatch.setitem(walk._VISITS, walk.Kind.LIST, refuse)
    x = torch.ones(3)
    inventory = take_inventory(StorageTable(), {"b": Broken([x]), "x": x}, budget=60, now=0.0)
    assert ["A Broken could not be looked into (MemoryError); what it holds has no name here"] == [
        note.sentence for note in inventory.notes if note.field == "names"
    ]
    assert {"x"} == {name for record in inventory.storages for name in record.names}


def test_dicts_of_the_users_own_kind_inside_objects_modules_and_optimizers_are_read_bare():
    evil = armed(dict)
    x, state = torch.ones(3), torch.ones(2)
    model, optimizer = nn.Linear(2, 2), torch.optim.SGD([nn.Parameter(torch.ones(2))], lr=0.1)
    weight, parameter = model.weight, optimizer.param_groups[0]["params"][0]
    plain, own, parameters, states = (evil() for _ in range(4))
    dict.__setitem__(plain, "x", x)
    dict.__setitem__(own, "weight", weight)
    dict.__setitem__(parameters, "weight", weight)
    dict.__setitem__(states, parameter, state)
    holder = type("Holder", (), {})()
    holder.__dict__ = plain
    vars(model)["_parameters"] = parameters
    vars(optimizer)["state"] = states
    namespace = {"holder": holder, "own": own, "model": model, "opt": optimizer}
    with disarmed(evil):
        assert ("holder.x",) == names_of(x, namespace)
        assert ("model.weight", "own['weight']") == names_of(weight, namespace)
        assert ("opt.state[opt.param_groups[0]['params'][0]]",) == names_of(state, namespace)
