"""What a running process says of itself: session, JVM, the JARs that it loaded, packages, DuckDB, our own code.

Nothing here comes from a definition or from settings: the requested values may not be the effective ones.

Covered is the process that asks: a driver, a batch run, a comparison. Confs of Spark SQL go from the driver to the
executors with each task; of an executor's own JVM nothing is read, its locale, charset and zone are pinned by options.
"""

import platform
from collections.abc import Iterator
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from cutover.definition.model.pipeline import Pipeline
from cutover.engine import code, confs, queries
from cutover.engine.in_force import InForce
from cutover.records import classify
from cutover.records.parsing import limits, parser

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
_BETWEEN = "\u0001"
_ISOLATION, _DEFAULT_ISOLATION = "isolation.level", "read_uncommitted"  # the default of a Kafka client


def of_process(pipeline: Pipeline) -> InForce:
    """Return what this process judges and folds with, without a JVM: `code`, `duckdb`, `records`, `versions`."""
    return InForce(
        {
            "code": code.hashes({*code.SHARED, *code.of_window(pipeline.window)}),
            "duckdb": _duckdb(),
            "records": _records(pipeline),
            "versions": {"python": platform.python_version(), **{name: version(name) for name in _PACKAGES}},
        }
    )


def of_session(spark: "SparkSession", pipeline: Pipeline, further: dict[str, dict[str, str]] | None = None) -> InForce:
    """Return what `of_process` does, and `spark`, `jvm` and `jars` of a running session.

    Args:
        spark: The session that reads the log; of a streaming query the one that its micro-batches have.
        pipeline: The definition that records are judged by.
        further: Families of the path alone.
    """
    return InForce(
        {
            **of_process(pipeline).families,
            "spark": confs.confs_in_question(confs_of(spark)),
            "jvm": _jvm(spark),
            "jars": _jars(spark),
            **(further or {}),
        }
    )


def confs_of(spark: "SparkSession") -> dict[str, str]:
    """Return every conf that is set in a session, what it took from files and environment too; takes 1 to 2 ms."""
    text = str(_java(spark).sessionState().conf().getAllConfs().mkString(_BETWEEN))
    return dict(pair.split(" -> ", maxsplit=1) for pair in text.split(_BETWEEN) if " -> " in pair)


def isolation(records: "DataFrame", session: "SparkSession | None" = None, query: str = "") -> str:
    """Return the isolation of the Kafka consumers that a frame's records come by, as the clients are configured.

    Args:
        records: Of a batch read, or of a micro-batch.
        session: That the streaming query was started in; for a micro-batch.
        query: The streaming query's name.

    Returns:
        `read_committed` or `read_uncommitted`; both, with a comma, if the clients differ; empty without a client.
    """
    params = [*_batch_params(records), *([] if session is None else _stream_params(session, query))]
    return ",".join(sorted({str(param.get(_ISOLATION) or _DEFAULT_ISOLATION) for param in params}))


def _records(pipeline: Pipeline) -> dict[str, str]:
    """Return what decides how a record is parsed and classified, as the expressions that do it have it."""
    options = {f"json {name}": value for name, value in parser.JSON_OPTIONS.items()}
    bounds = {name.lower(): str(value) for name, value in vars(limits).items() if name.isupper()}
    return {**options, **bounds, "max_ahead": classify.future_sql(pipeline, "unix_micros(_event_time)")}


def _duckdb() -> dict[str, str]:
    with queries.connect() as connection:
        names = ", ".join(f"current_setting('{name}')::VARCHAR" for name in _DUCKDB)
        found = connection.execute(f"SELECT {names}, version()").fetchall()[0]
    return dict(zip((*_DUCKDB, "version"), map(str, found), strict=True))


def _jvm(spark: "SparkSession") -> dict[str, str]:
    java = _java_packages(spark)
    return {
        "time zone": str(java.util.TimeZone.getDefault().getID()),
        "time zone data": str(java.time.zone.ZoneRulesProvider.getVersions("UTC").lastKey()),
        "locale": str(java.util.Locale.getDefault().toString()),
        "charset": str(java.nio.charset.Charset.defaultCharset().name()),
        "runtime": str(java.lang.System.getProperty("java.runtime.version")),
    }


def _jars(spark: "SparkSession") -> dict[str, str]:
    """Return the names of the files that the classes in use were loaded from; they hold the versions."""
    loader: Any = spark._jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader()  # type: ignore[union-attr] # noqa: SLF001 -- py4j's own
    found = {}
    for part, name in _LOADED.items():
        path = loader.loadClass(name).getProtectionDomain().getCodeSource().getLocation().getPath()
        found[part] = str(path).rstrip("/").rsplit("/", maxsplit=1)[-1]
    return found


def _batch_params(records: "DataFrame") -> Iterator[dict[str, Any]]:
    for leaf in _leaves(records._jdf.queryExecution().analyzed()):  # noqa: SLF001 -- PySpark shows no plan
        relation = leaf.relation() if _is_a(leaf, "LogicalRelation") else None
        if relation is not None and _is_a(relation, "KafkaRelation"):
            found = _field(relation, "specifiedKafkaParams").get(_ISOLATION)
            yield {_ISOLATION: found.get() if found.isDefined() else None}


def _stream_params(session: "SparkSession", query: str) -> Iterator[dict[str, Any]]:
    for running in session.streams.active:
        if running.name == query:
            plan = running._jsq.streamingQuery().logicalPlan()  # noqa: SLF001 -- PySpark shows no plan
            for leaf in _leaves(plan):
                yield {_ISOLATION: _field(leaf.stream(), "executorKafkaParams").get(_ISOLATION)}


def _leaves(plan: Any) -> Iterator[Any]:
    found = plan.collectLeaves()
    return (found.apply(place) for place in range(found.size()))


def _is_a(found: Any, name: str) -> bool:
    return str(found.getClass().getSimpleName()) == name


def _field(found: Any, name: str) -> Any:
    """Return a private field of a class of Spark's Kafka source: it contains the options of its consumers."""
    field = found.getClass().getDeclaredField(name)
    field.setAccessible(True)
    return field.get(found)


def _java(spark: "SparkSession") -> Any:
    return spark._jsparkSession  # noqa: SLF001 -- PySpark has no other way to the session's state


def _java_packages(spark: "SparkSession") -> Any:
    return spark._jvm.java  # type: ignore[union-attr]  # noqa: SLF001 -- as above
