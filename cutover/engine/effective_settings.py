"""Effective settings of processes, and the items in which several processes differ. Pure.

Each Spark conf is pinned, without effect on results, or recorded and compared.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Families = Mapping[str, Mapping[str, str]]

NOT_SET = "not set"

RECORDED = ("spark.sql.catalog.", "spark.sql.extensions")
"""Confs that settings may set although results could depend on them; they are recorded and compared."""

_RELEVANT_PREFIXES = ("spark.sql.", "spark.databricks.delta.")


@dataclass(frozen=True, slots=True)
class EffectiveSettings:
    """Effective settings of a process: values by item in families (`spark`, `jvm`, `jars`, `duckdb`, `code`, ...).

    A process reports only the families that it has: a reader without a JVM has no `spark`. An item that a reported
    family does not contain is not set.
    """

    families: Families

    @property
    def digest(self) -> str:
        """Hash all families, 16 hex digits: equal digests mean equal settings."""
        text = json.dumps(self.families, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedSettings:
    """Effective settings with the process that reported them, such as `the stream in epochs 0 to 41`."""

    reporter: str
    settings: EffectiveSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """Item whose value differs between processes."""

    item: str  # family and name
    values: tuple[tuple[str, str], ...]  # (reporters, value), one pair per value

    @property
    def text(self) -> str:
        """Return a sentence with the item and the reporters of each value."""
        values = "; ".join(f"{reporters} ran with `{value}`" for reporters, value in self.values)
        return f"Setting in force, {self.item}: expected one value, got several: {values}."


def find_drifts(sides: Sequence[ReportedSettings]) -> tuple[Drift, ...]:
    """Find the items whose values differ between the processes that report their family, by name.

    Args:
        sides: Reported settings, in the order in which messages name them.
    """
    families = sorted({family for side in sides for family in side.settings.families})
    return tuple(drift for family in families for drift in _find_family_drifts(sides, family))


def _find_family_drifts(sides: Sequence[ReportedSettings], family: str) -> list[Drift]:
    reports = [(side.reporter, side.settings.families[family]) for side in sides if family in side.settings.families]
    drifts = []
    for name in sorted({name for _, items in reports for name in items}):
        reporters_by_value: dict[str, list[str]] = {}
        for reporter, items in reports:
            reporters_by_value.setdefault(items.get(name, NOT_SET), []).append(reporter)
        if len(reporters_by_value) > 1:
            values = tuple((" and ".join(names), value) for value, names in reporters_by_value.items())
            drifts.append(Drift(item=f"{family} `{name}`", values=values))
    return drifts


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
