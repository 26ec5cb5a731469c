"""Frozen values as JSON that the lake keeps, and back: types are checked as they are read, nothing is converted."""

import json
from dataclasses import asdict
from functools import cache
from typing import Any, TypeVar, cast

from pydantic import ConfigDict, TypeAdapter, ValidationError

T = TypeVar("T")

EXACT = ConfigDict(extra="forbid", strict=True)
"""As `__pydantic_config__` of a dataclass: a field that it does not have is refused."""


def encode(value: Any) -> str:
    """Return a dataclass as one line, keys sorted."""
    return json.dumps(asdict(value), sort_keys=True)


def parse(kind: type[T], text: str | bytes) -> T:
    """Return the dataclass that `encode` was given; a number that is a key becomes one again, a list a tuple.

    Raises:
        ValueError: It is no JSON, a field is missing, or one has another type; one line, with the field.
    """
    try:
        return cast("T", _make_adapter(cast("Any", kind)).validate_json(text, strict=True))
    except ValidationError as error:
        first_error = error.errors(include_url=False, include_input=False, include_context=False)[0]
        msg = ": ".join((*map(str, first_error["loc"]), first_error["msg"]))
        raise ValueError(msg) from None


@cache
def _make_adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)
