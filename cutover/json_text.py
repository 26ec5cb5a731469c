"""JSON encoding of frozen dataclasses that the lake stores; parsing validates types and converts nothing."""

import json
from dataclasses import asdict
from functools import cache
from typing import Any, TypeVar, cast

from pydantic import ConfigDict, TypeAdapter, ValidationError

T = TypeVar("T")

EXACT = ConfigDict(extra="forbid", strict=True)
"""`__pydantic_config__` of a dataclass that rejects unknown fields."""


def encode_dataclass(value: Any) -> str:
    """Encode a dataclass as one line of JSON with sorted keys."""
    return json.dumps(asdict(value), sort_keys=True)


def parse_dataclass(kind: type[T], text: str | bytes) -> T:
    """Parse a dataclass from the output of `encode_dataclass`, restoring integer keys and tuples.

    Raises:
        ValueError: The text is not JSON, a field is missing, or a value has another type; the message is one line and
            contains the field.
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
