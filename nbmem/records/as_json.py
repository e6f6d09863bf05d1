"""Records as plain data for JSON, and back."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

if TYPE_CHECKING:
    from collections.abc import Hashable

Record = TypeVar("Record")


def to_json(value: Any) -> Any:
    """Returns a record as plain dicts, lists and scalars that `json.dumps` takes."""
    if is_dataclass(value):
        return {field.name: to_json(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple | list):
        return [to_json(item) for item in value]
    if isinstance(value, dict):
        return {key: to_json(item) for key, item in value.items()}
    return value


def from_json(kind: type[Record], data: Any) -> Record:
    """Returns the record of type `kind` that `to_json` wrote as `data`.

    Keys that this version does not know are left out, so that files of a later version under the
    same schema number open.

    Raises:
        ValueError: a field is missing or of another type; the message names it.
    """
    if not isinstance(data, dict):
        raise ValueError(f"{kind.__name__} is not an object but {type(data).__name__}")
    hints = _hints(cast("Hashable", kind))
    known = {key: _value(hints[key], item, key) for key, item in data.items() if key in hints}
    try:
        return kind(**known)
    except TypeError as error:
        raise ValueError(str(error)) from None


@cache  # resolving the annotations costs more than reading the data: once a type is enough
def _hints(kind: Hashable) -> dict[str, Any]:
    return get_type_hints(kind)


def _value(hint: Any, data: Any, where: str) -> Any:
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return _optional(args, data, where)
    if origin is tuple:
        return tuple(_value(args[0], item, where) for item in _expect(list, data, where))
    if origin is dict:
        return {k: _value(args[1], v, where) for k, v in _expect(dict, data, where).items()}
    if isinstance(hint, type) and is_dataclass(hint):
        return from_json(hint, data)
    if hint is float:
        return _float(_expect((int, float), data, where), where)
    return _expect(hint, data, where)


def _optional(args: tuple[Any, ...], data: Any, where: str) -> Any:
    if data is None:
        return None
    (inner,) = (arg for arg in args if arg is not NoneType)
    return _value(inner, data, where)


def _float(data: int | float, where: str) -> float:
    try:
        return float(data)
    except OverflowError:
        raise ValueError(f"`{where}` is too large a number") from None


def _expect(kind: Any, data: Any, where: str) -> Any:
    if not isinstance(data, kind) or (isinstance(data, bool) and kind is not bool):
        raise ValueError(f"`{where}` is {type(data).__name__}, expected {kind}")
    return data
