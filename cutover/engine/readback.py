"""Read-back of a running process's effective settings: session, JVM, loaded JARs, packages, DuckDB, code.

Nothing here comes from a definition or from settings: the requested values may not be the effective ones.

It covers the calling process: a driver, a batch run, a comparison. Spark sends SQL confs from the driver to executors
with each task; executors' JVMs are not read, since options pin their locale, charset and time zone.
"""

import platform
from collections.abc import Iterator
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from cutover.definition.model.pipeline import Pipeline, list_topics
from cutover.engine import code, effective_settings, queries
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
            "code": code.hash_modules({*code.SHARED, *code.list_window_modules(pipeline.window)}),
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
