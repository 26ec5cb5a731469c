"""What a function of Python's in a plan asks besides its arguments, as far as its code tells."""

import pickle
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

from cutover.parity.jobs.functions import IMPURE

HOMES = frozenset({"random", "time", "datetime", "uuid", "secrets", "requests", "urllib", "http", "httpx", "socket"})
"""Modules whose functions ask the clock, chance or another system."""


def find_impure(expression: Any) -> str:
    """Return what a function of a plan calls that asks the clock, chance or another system; empty if none is seen.

    Args:
        expression: Spark's, of a function that this process made: its code is looked at and not run.
    """
    try:
        command = bytes(expression.func().command().toArray(_find_byte_tag()))
        found = pickle.loads(command)  # noqa: S301 -- this process pickled it a moment ago
    except Exception:  # noqa: BLE001 -- of another language, too large, or gone: then nothing can be told
        return ""
    function = found[0] if isinstance(found, tuple) else found
    return next(_list_calls(function), "") if isinstance(function, FunctionType) else ""


def _find_byte_tag() -> Any:
    """Return what Scala needs to make an array of bytes."""
    from pyspark import SparkContext  # noqa: PLC0415 -- texts of plans are read without Spark

    return SparkContext._jvm.scala.reflect.ClassTag.Byte()  # type: ignore[union-attr]  # noqa: SLF001 -- there is no other way


def _list_calls(function: FunctionType) -> Iterator[str]:
    names = list(_list_names(function.__code__))
    for name in names:
        if _home(function.__globals__.get(name)) in HOMES:
            yield from (called for called in names if called in IMPURE)


def _list_names(code: CodeType) -> Iterator[str]:
    """Yield the names that code uses, and those of functions inside it."""
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _list_names(inner)


def _home(value: object) -> str:
    """Return the outermost module that a value comes from."""
    if isinstance(value, ModuleType):
        return value.__name__.partition(".")[0]
    module = getattr(value, "__module__", None) or type(getattr(value, "__self__", None)).__module__
    return str(module).partition(".")[0]
