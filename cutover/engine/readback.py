"""Read-back of a running process's effective settings: session, JVM, loaded JARs, packages, DuckDB, code.

Nothing here comes from a definition or from settings: the requested values may not be the effective ones.

It covers the calling process: a driver, a batch run, a comparison. Spark sends SQL confs from the driver to executors
with each task; executors' JVMs are not read, since options pin their locale, charset and time zone.

The code that classifies and aggregates records is hashed by its loaded functions, not by files. A module's hash covers
the byte code of its functions and classes and its plain constants, without comments, docstrings, file names and line
numbers. A function that was replaced at run time has another hash.
"""

import enum
import hashlib
import platform
import re
import types
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, cached_property
from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from cutover.definition.model.pipeline import Pipeline, list_topics
from cutover.definition.windows.window_fn import WindowFn
from cutover.engine import effective_settings, queries
from cutover.engine.effective_settings import EffectiveSettings
from cutover.records import classify
from cutover.records.parsing import limits, parser
from cutover.records.parsing.writer_schemas import list_avro_topics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PACKAGES = ("cutover", "deltalake", "duckdb", "pyarrow", "pyspark")
_DUCKDB = ("TimeZone", "Calendar", "default_null_order", "default_order", "ieee_floating_point_ops", "integer_division")
_LOADED = {
    "engine": "org.apache.spark.sql.SparkSession",
    "kafka source": "org.apache.spark.sql.kafka010.KafkaSourceProvider",
    "kafka client": "org.apache.kafka.common.utils.AppInfoParser",
    "delta": "io.delta.sql.DeltaSparkSessionExtension",
    "json parser": "com.fasterxml.jackson.core.JsonFactory",
}
_LOADED_FOR_AVRO = {"avro": "org.apache.avro.Schema", "avro values": "org.apache.spark.sql.avro.AvroDataToCatalyst"}
_BETWEEN = "\u0001"
_ISOLATION, _DEFAULT_ISOLATION = "isolation.level", "read_uncommitted"  # the default of a Kafka client


def read_process_settings(pipeline: Pipeline) -> EffectiveSettings:
    """Read the effective settings of this process without a JVM: `code`, `duckdb`, `records`, `versions`."""
    packages = (
        *_PACKAGES,
        *(("protobuf",) if any(topic.parse == "protobuf" for topic in list_topics(pipeline)) else ()),
    )
    return EffectiveSettings(
        {
            "code": hash_modules({*SHARED, *list_window_modules(pipeline.window)}),
            "duckdb": _duckdb(),
            "records": _records(pipeline),
            "versions": {"python": platform.python_version(), **{name: version(name) for name in packages}},
        }
    )


def read_session_settings(
    spark: "SparkSession", pipeline: Pipeline, further: dict[str, dict[str, str]] | None = None
) -> EffectiveSettings:
    """Read the settings of `read_process_settings`, and `spark`, `jvm` and `jars` of a running session.

    Args:
        spark: Session that reads the log; for a streaming query that of its micro-batches.
        pipeline: Definition that classifies the records.
        further: Further families of this path.
    """
    return EffectiveSettings(
        {
            **read_process_settings(pipeline).families,
            "spark": effective_settings.select_relevant_confs(read_confs(spark)),
            "jvm": _jvm(spark),
            "jars": _jars(spark, _LOADED | (_LOADED_FOR_AVRO if list_avro_topics(pipeline) else {})),
            **(further or {}),
        }
    )


def read_confs(spark: "SparkSession") -> dict[str, str]:
    """Read all confs of a session, including those from files and the environment; takes 1 to 2 ms."""
    text = str(_java(spark).sessionState().conf().getAllConfs().mkString(_BETWEEN))
    return dict(pair.split(" -> ", maxsplit=1) for pair in text.split(_BETWEEN) if " -> " in pair)


def read_isolation(records: "DataFrame", session: "SparkSession | None" = None, query: str = "") -> str:
    """Read the configured isolation of the Kafka consumers that read a DataFrame's records.

    Args:
        records: DataFrame of a batch read, or of a micro-batch.
        session: Session in which the streaming query was started, for a micro-batch.
        query: Name of the streaming query.

    Returns:
        `read_committed` or `read_uncommitted`; both, with a comma, if the clients differ; empty without a client.
    """
    params = [*_batch_params(records), *([] if session is None else _stream_params(session, query))]
    return ",".join(sorted({str(param.get(_ISOLATION) or _DEFAULT_ISOLATION) for param in params}))


def _records(pipeline: Pipeline) -> dict[str, str]:
    """Return the settings by which records are parsed and classified, from the expressions that use them."""
    options = {f"json {name}": value for name, value in parser.JSON_OPTIONS.items()}
    bounds = {name.lower(): str(value) for name, value in vars(limits).items() if name.isupper()}
    return {**options, **bounds, "max_ahead": classify.future_sql(pipeline, "unix_micros(_event_time)")}


def _duckdb() -> dict[str, str]:
    with queries.open_duckdb() as connection:
        names = ", ".join(f"current_setting('{name}')::VARCHAR" for name in _DUCKDB)
        values = connection.execute(f"SELECT {names}, version()").fetchall()[0]
    return dict(zip((*_DUCKDB, "version"), map(str, values), strict=True))


def _jvm(spark: "SparkSession") -> dict[str, str]:
    java = _java_packages(spark)
    return {
        "time zone": str(java.util.TimeZone.getDefault().getID()),
        "time zone data": str(java.time.zone.ZoneRulesProvider.getVersions("UTC").lastKey()),
        "locale": str(java.util.Locale.getDefault().toString()),
        "charset": str(java.nio.charset.Charset.defaultCharset().name()),
        "runtime": str(java.lang.System.getProperty("java.runtime.version")),
    }


def _jars(spark: "SparkSession", classes: dict[str, str]) -> dict[str, str]:
    """Map each component to the JAR that its class was loaded from; the file name contains the version."""
    loader: Any = spark._jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader()  # type: ignore[union-attr] # noqa: SLF001 -- py4j's own
    jars = {}
    for part, name in classes.items():
        path = loader.loadClass(name).getProtectionDomain().getCodeSource().getLocation().getPath()
        jars[part] = str(path).rstrip("/").rsplit("/", maxsplit=1)[-1]
    return jars


def _batch_params(records: "DataFrame") -> Iterator[dict[str, Any]]:
    for leaf in _leaves(records._jdf.queryExecution().analyzed()):  # noqa: SLF001 -- PySpark shows no plan
        relation = leaf.relation() if _is_a(leaf, "LogicalRelation") else None
        if relation is not None and _is_a(relation, "KafkaRelation"):
            option = _field(relation, "specifiedKafkaParams").get(_ISOLATION)
            yield {_ISOLATION: option.get() if option.isDefined() else None}


def _stream_params(session: "SparkSession", query: str) -> Iterator[dict[str, Any]]:
    for running in session.streams.active:
        if running.name == query:
            plan = running._jsq.streamingQuery().logicalPlan()  # noqa: SLF001 -- PySpark shows no plan
            for leaf in _leaves(plan):
                yield {_ISOLATION: _field(leaf.stream(), "executorKafkaParams").get(_ISOLATION)}


def _leaves(plan: Any) -> Iterator[Any]:
    leaves = plan.collectLeaves()
    return (leaves.apply(index) for index in range(leaves.size()))


def _is_a(java_object: Any, name: str) -> bool:
    return str(java_object.getClass().getSimpleName()) == name


def _field(java_object: Any, name: str) -> Any:
    """Return a private field of Spark's Kafka source, which contains the options of its consumers."""
    field = java_object.getClass().getDeclaredField(name)
    field.setAccessible(True)
    return field.get(java_object)


def _java(spark: "SparkSession") -> Any:
    return spark._jsparkSession  # noqa: SLF001 -- PySpark has no other way to the session's state


def _java_packages(spark: "SparkSession") -> Any:
    return spark._jvm.java  # type: ignore[union-attr]  # noqa: SLF001 -- as above


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
    "cutover.definition.model.joins",
    "cutover.definition.model.pipeline",
    "cutover.definition.model.protobuf",
    "cutover.definition.model.times",
    "cutover.definition.model.topic",
    "cutover.definition.windows.kinds",
    "cutover.definition.windows.window_fn",
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
    "cutover.records.parsing.binary_values",
    "cutover.records.parsing.field_sql",
    "cutover.records.parsing.job_values",
    "cutover.records.parsing.limits",
    "cutover.records.parsing.parsed_record",
    "cutover.records.parsing.parser",
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
