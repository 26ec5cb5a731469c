"""What a function of Python's in a plan asks besides its arguments, as far as its code tells."""

import dis
import pickle
from collections.abc import Iterator, Mapping
from types import CodeType, FunctionType, ModuleType
from typing import Any

from cutover.parity.purity import is_chance, is_clock, is_service


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
    for path in _list_paths(function.__code__, function.__globals__):
        if is_clock(path) or is_chance(path) or is_service(path):
            yield path.rpartition(".")[2]


def _list_paths(code: CodeType, names: Mapping[str, object]) -> Iterator[str]:
    """Yield the dotted path of each global name that code uses with the attributes behind it, inner functions too."""
    path = ""
    for step in dis.get_instructions(code):
        if step.opname == "LOAD_GLOBAL":
            yield path
            path = _name(names.get(str(step.argval)), str(step.argval))
        elif step.opname in {"LOAD_ATTR", "LOAD_METHOD"} and path:
            path = f"{path}.{step.argval}"
        elif path:
            yield path
            path = ""
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _list_paths(inner, names)


def _name(value: object, name: str) -> str:
    """Return the dotted path of a module, a class, a function, or a method of a module's own object."""
    if isinstance(value, ModuleType):
        return value.__name__
    module = getattr(value, "__module__", None) or type(getattr(value, "__self__", None)).__module__
    return f"{module}.{getattr(value, '__qualname__', name)}"
