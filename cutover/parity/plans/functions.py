"""Impure calls of Python functions in a plan, found in their bytecode."""

import dis
import pickle
from collections.abc import Iterator, Mapping
from types import CodeType, FunctionType, ModuleType
from typing import Any

from cutover.parity.purity import is_clock, is_external_service, is_random


def find_impure_call(expression: Any) -> str:
    """Find a call in a plan's function that reads the clock, chance or another system; empty if there is none.

    Args:
        expression: Spark expression of a function pickled by this process; its code is inspected, not run.
    """
    try:
        command = bytes(expression.func().command().toArray(_find_byte_tag()))
        unpickled = pickle.loads(command)  # noqa: S301 -- pickled by this same process
    except Exception:  # noqa: BLE001 -- another language, too large, or no longer available: nothing is known then
        return ""
    function = unpickled[0] if isinstance(unpickled, tuple) else unpickled
    return next(_list_impure_calls(function), "") if isinstance(function, FunctionType) else ""


def _find_byte_tag() -> Any:
    """Return the class tag with which Scala makes an array of bytes."""
    from pyspark import SparkContext  # noqa: PLC0415 -- texts of plans are read without Spark

    return SparkContext._jvm.scala.reflect.ClassTag.Byte()  # type: ignore[union-attr]  # noqa: SLF001 -- there is no other way


def _list_impure_calls(function: FunctionType) -> Iterator[str]:
    for path in _list_paths(function.__code__, function.__globals__):
        if is_clock(path) or is_random(path) or is_external_service(path):
            yield path.rpartition(".")[2]


def _list_paths(code: CodeType, names: Mapping[str, object]) -> Iterator[str]:
    """Yield the dotted path of each global name with its attributes that code uses, inner functions included."""
    path = ""
    for instruction in dis.get_instructions(code):
        if instruction.opname == "LOAD_GLOBAL":
            yield path
            path = _get_dotted_path(names.get(str(instruction.argval)), str(instruction.argval))
        elif instruction.opname in {"LOAD_ATTR", "LOAD_METHOD"} and path:
            path = f"{path}.{instruction.argval}"
        elif path:
            yield path
            path = ""
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _list_paths(inner, names)


def _get_dotted_path(value: object, name: str) -> str:
    """Return the dotted path of a module, a class, a function, or a method of a module-level object."""
    if isinstance(value, ModuleType):
        return value.__name__
    module = getattr(value, "__module__", None) or type(getattr(value, "__self__", None)).__module__
    return f"{module}.{getattr(value, '__qualname__', name)}"
