"""Classification of Spark confs: pinned, without effect on results, or recorded and compared. Pure."""

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
"""Confs that results depend on, with their values in every session of Cutover."""

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
"""Confs of parallelism, memory, speed and display, on which no result depends; a final dot marks a prefix."""

RECORDED = ("spark.sql.catalog.", "spark.sql.extensions")
"""Confs that settings may set although results could depend on them; they are recorded and compared."""

_RELEVANT_PREFIXES = ("spark.sql.", "spark.databricks.delta.")


def find_rejected_conf(conf: Mapping[str, str]) -> tuple[str, str] | None:
    """Find the first conf that settings may not set, with the expected value; None if all are allowed.

    Confs outside Spark SQL are allowed (memory, hosts, executors, JARs); the JARs that they load are read back.
    """
    for key, value in sorted(conf.items()):
        if PINNED.get(key, value) != value:
            return key, f"`{key}` = `{PINNED[key]}`"
        if (
            key.startswith("spark.sql.")
            and key not in PINNED
            and not _is_in(key, HARMLESS)
            and not _is_in(key, RECORDED)
        ):
            return key, "confs of Spark SQL that change no result"
    return None


def select_relevant_confs(conf: Mapping[str, str]) -> dict[str, str]:
    """Select the confs of a running session that results could depend on, including unknown ones."""
    return {
        key: value
        for key, value in conf.items()
        if key in PINNED or (key.startswith(_RELEVANT_PREFIXES) and not _is_in(key, HARMLESS))
    }


def _is_in(key: str, names: tuple[str, ...]) -> bool:
    return any(key.startswith(name) if name.endswith(".") else key == name for name in names)
