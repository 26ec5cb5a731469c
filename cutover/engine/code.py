"""Hashes of the code that classifies and aggregates records, computed from loaded functions, not from files.

A module's hash covers the byte code of its functions and classes and its plain constants, without comments, docstrings,
file names and line numbers. A function that was replaced at run time has another hash.
"""

import enum
import hashlib
import re
import types
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, cached_property
from importlib import import_module

from cutover.definition.windows.window_fn import WindowFn

SHARED = (
    "cutover.definition.compile.compiled",
    "cutover.definition.compile.fingerprint",
    "cutover.definition.expressions.compiler",
    "cutover.definition.expressions.functions",
    "cutover.definition.expressions.operators",
    "cutover.definition.expressions.terms",
    "cutover.definition.measures.doubles",
    "cutover.definition.measures.kinds",
    "cutover.definition.measures.states",
    "cutover.definition.measures.value_counts",
    "cutover.definition.model.joins",
    "cutover.definition.model.topic",
    "cutover.definition.model.pipeline",
    "cutover.definition.model.protobuf",
    "cutover.definition.model.record_ids",
    "cutover.definition.model.spark_stream",
    "cutover.definition.model.times",
    "cutover.definition.windows.kinds",
    "cutover.definition.windows.window_fn",
    "cutover.durations",
    "cutover.json_text",
    "cutover.lake.dimensions.joined_versions",
    "cutover.lake.tables.schemas",
    "cutover.log.topic_partitions",
    "cutover.quoting",
    "cutover.records.classes",
    "cutover.records.classify",
    "cutover.records.columns",
    "cutover.records.enrich",
    "cutover.records.fold",
    "cutover.records.parsing.avro_layout",
    "cutover.records.parsing.avro_values",
    "cutover.records.parsing.field_sql",
    "cutover.records.parsing.job_values",
    "cutover.records.parsing.limits",
    "cutover.records.parsing.parsed_record",
    "cutover.records.parsing.parser",
    "cutover.records.parsing.protobuf_values",
    "cutover.records.parsing.writer_schemas",
    "cutover.records.partials",
    "cutover.records.reading.scan",
    "cutover.records.watermark",
    "cutover.timestamps",
)
"""Modules that classify and aggregate records on both paths and in the reconciler."""

_PLAIN = (str, bytes, int, float, type(None), type(...))
_EXCLUDED = frozenset({"__doc__", "__module__", "__annotations__", "__dict__", "__weakref__", "__dataclass_fields__"})


def list_window_modules(window: WindowFn) -> tuple[str, ...]:
    """List the modules of a window's kind, sorted; other kinds do not affect the definition."""
    modules = (kind.__module__ for kind in type(window).__mro__)
    return tuple(sorted({name for name in modules if name.startswith("cutover.")}))


def hash_modules(modules: Iterable[str] = SHARED) -> dict[str, str]:
    """Map each module to 12 hex digits over its loaded code."""
    return {name: _digest(_describe_module(import_module(name))) for name in modules}


def _digest(lines: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]


def _describe_module(module: types.ModuleType) -> Iterator[str]:
    for name, value in sorted(vars(module).items()):
        if not name.startswith("__"):
            yield f"{name} = {_describe_value(value, module.__name__)}"


def _describe_value(value: object, module: str) -> str:
    """Describe code or a constant by a text that is equal in every process."""
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name} {value.value!r}"
    if isinstance(value, _PLAIN):
        return repr(value)
    if isinstance(value, types.FunctionType | type):
        if value.__module__ != module:
            return f"{value.__module__}.{value.__qualname__}"
        return (
            _describe_function(value, module)
            if isinstance(value, types.FunctionType)
            else _describe_class(value, module)
        )
    if isinstance(value, types.CodeType):
        return _describe_code(value, module)
    return _describe_container(value, module)


def _describe_container(value: object, module: str) -> str:
    """Describe a container or wrapper with its contents, and any other object by its type."""
    if isinstance(value, tuple | list):
        return f"[{', '.join(_describe_value(item, module) for item in value)}]"
    if isinstance(value, set | frozenset):
        return f"{{{', '.join(sorted(_describe_value(item, module) for item in value))}}}"
    if isinstance(value, Mapping):
        pairs = (f"{_describe_value(key, module)}: {_describe_value(item, module)}" for key, item in value.items())
        return f"{{{', '.join(sorted(pairs))}}}"
    if isinstance(value, re.Pattern):
        return f"{value.pattern!r} {value.flags}"
    if isinstance(value, property | cached_property):
        parts = (value.fget, value.fset) if isinstance(value, property) else (value.func,)
        return _describe_value(parts, module)
    inner = getattr(value, "__wrapped__", getattr(value, "__func__", None))  # the function of a cache or a class method
    return type(value).__name__ if inner is None else f"{type(value).__name__} {_describe_value(inner, module)}"


def _describe_function(function: types.FunctionType, module: str) -> str:
    defaults = _describe_value((function.__defaults__, function.__kwdefaults__), module)
    return f"{_describe_code(function.__code__, module)} {defaults}"


def _describe_class(class_: type, module: str) -> str:
    bases = ", ".join(base.__qualname__ for base in class_.__bases__)
    parts = (
        f"{name}: {_describe_value(value, module)}"
        for name, value in sorted(vars(class_).items())
        if name not in _EXCLUDED
    )
    return f"({bases}) {_digest(parts)}"


@cache  # code objects are immutable: only replaced ones are described again
def _describe_code(code: types.CodeType, module: str) -> str:
    # The first constant of a named function is its docstring, or None.
    constants = code.co_consts if code.co_name.startswith("<") else code.co_consts[1:]
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    return _digest([code.co_code.hex(), repr(names), _describe_value(constants, module)])
