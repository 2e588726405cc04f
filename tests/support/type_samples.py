"""Sample values of annotated types, with every field set."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

_SCALARS: dict[Any, Any] = {
    str: "text",
    bytes: b"text",
    bool: True,
    int: 1,
    float: 0.5,
    Path: Path("/sample"),
}


def make_sample(hint: Any, *, is_full: bool = True) -> Any:
    """Return a value of a type. A full value has no None; each sequence has a full item and another one.

    Raises:
        KeyError: no sample of this type is known; add it to the table.
    """
    arguments = get_args(hint)
    match get_origin(hint):
        case origin if origin is Annotated:
            return make_sample(arguments[0], is_full=is_full)
        case origin if origin is Literal:
            return arguments[0]
        case origin if origin in (Union, UnionType):
            is_none = NoneType in arguments and not is_full
            return None if is_none else make_sample(next(each for each in arguments if each is not NoneType))
        case type() as origin if issubclass(origin, Sequence):
            items = [make_sample(arguments[0], is_full=each) for each in (True, False)]
            return tuple(items) if issubclass(origin, tuple) else items
        case type() as origin if issubclass(origin, Mapping):
            return {"key": make_sample(arguments[1])}
        case _:
            return _make_sample_of_class(hint, is_full=is_full)


def _make_sample_of_class(shape: Any, *, is_full: bool) -> Any:
    if isinstance(shape, type) and issubclass(shape, Enum):
        return next(iter(shape))
    names = getattr(shape, "__struct_fields__", ())
    if dataclasses.is_dataclass(shape):
        names = tuple(field.name for field in dataclasses.fields(shape) if field.init)
    elif not (isinstance(shape, type) and issubclass(shape, msgspec.Struct)):
        return _SCALARS[shape]
    hints = get_type_hints(shape, include_extras=True)
    return shape(**{name: make_sample(hints[name], is_full=is_full) for name in names})
