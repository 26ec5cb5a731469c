"""Every conf of Spark is decided: pinned by us, without effect on a result, or recorded and compared. Pure."""

from collections.abc import Mapping

PINNED = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    # On, it drops the metrics node of a micro-batch whose rows a filter removes all: `Observation.get` then fails.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.caseSensitive": "false",
    "spark.sql.columnNameOfCorruptRecord": "_corrupt_record",
    "spark.sql.datetime.java8API.enabled": "false",
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.json.filterPushdown.enabled": "true",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    "spark.sql.mapKeyDedupPolicy": "EXCEPTION",
    "spark.sql.optimizer.enableJsonExpressionOptimization": "true",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.storeAssignmentPolicy": "ANSI",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
}
"""Settings that a result depends on, with the values of every session of Cutover."""

HARMLESS = (
    "spark.sql.adaptive.",
    "spark.sql.artifact.",
    "spark.sql.autoBroadcastJoinThreshold",
    "spark.sql.broadcastTimeout",
    "spark.sql.cbo.",
    "spark.sql.classic.shuffleDependency.",
    "spark.sql.debug.",
    "spark.sql.event.truncate.length",
    "spark.sql.execution.arrow.compression.",
    "spark.sql.execution.arrow.localRelationThreshold",
    "spark.sql.execution.arrow.maxRecordsPerBatch",
    "spark.sql.execution.interruptOnCancel",
    "spark.sql.files.maxPartitionBytes",
    "spark.sql.files.maxPartitionNum",
    "spark.sql.files.maxRecordsPerFile",
    "spark.sql.files.minPartitionNum",
    "spark.sql.files.openCostInBytes",
    "spark.sql.inMemoryColumnarStorage.",
    "spark.sql.leafNodeDefaultParallelism",
    "spark.sql.maxBroadcastTableSize",
    "spark.sql.maxMetadataStringLength",
    "spark.sql.maxPlanStringLength",
    "spark.sql.parquet.compression.codec",
    "spark.sql.pyspark.jvmStacktrace.enabled",
    "spark.sql.redaction.",
    "spark.sql.repl.",
    "spark.sql.requireAllClusterKeysForDistribution",  # set by every streaming query
    "spark.sql.shuffle.",
    "spark.sql.shuffleDependency.",
    "spark.sql.streaming.",
    "spark.sql.ui.",
    "spark.sql.warehouse.dir",
    "spark.databricks.delta.snapshotPartitions",
)
"""Width, memory, pace, display: no result depends on them. A name that ends with a dot covers all below."""

GIVEN = ("spark.sql.catalog.", "spark.sql.extensions")
"""What the settings may say though a result could depend on it: it is recorded and compared."""

_JUDGED = ("spark.sql.", "spark.databricks.delta.")


def refusal(conf: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the first key that the settings may not hold, and what is expected of it; None: there is none.

    Whatever is no conf of Spark SQL passes: memory, hosts, executors, JARs. What is loaded by it is read back.
    """
    for key, value in sorted(conf.items()):
        if PINNED.get(key, value) != value:
            return key, f"`{key}` = `{PINNED[key]}`"
        if key.startswith("spark.sql.") and key not in PINNED and not _is_in(key, HARMLESS) and not _is_in(key, GIVEN):
            return key, "confs of Spark SQL that change no result"
    return None


def confs_in_question(conf: Mapping[str, str]) -> dict[str, str]:
    """Return those confs of a running session that a result could depend on, unknown ones among them."""
    return {
        key: value
        for key, value in conf.items()
        if key in PINNED or (key.startswith(_JUDGED) and not _is_in(key, HARMLESS))
    }


def _is_in(key: str, names: tuple[str, ...]) -> bool:
    return any(key.startswith(name) if name.endswith(".") else key == name for name in names)
