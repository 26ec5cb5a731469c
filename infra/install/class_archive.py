"""Class archive of the JVM (class data sharing), with the classes of a driver, so that Spark starts faster.

A rehearsal loads the classes that a micro-batch needs, without a broker and without the network; the JVM writes the
archive when it ends. Like the JARs, the archive belongs to the installed environment. A JVM ignores an archive of
another Java or of other JARs.
"""

import contextlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cutover.definition import Count, Fixed, Lateness, Max, Pipeline, Sum, Topic
from cutover.engine import spark
from cutover.records import classify, partials
from cutover.records.parsing import parser
from cutover.settings import Settings, SparkSettings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TIMEOUT_SECONDS = 120
"""Time in which the JVM has to write its archive."""

JAVA_OPTIONS = "spark.driver.extraJavaOptions"
ROWS = 200
_RECORD = "encode(to_json(named_struct('id', value, 'kind', 'a', 'at', unix_millis(timestamp))), 'UTF-8')"
_COLUMNS = (f"{_RECORD} AS value", "0 AS partition", "value AS offset", "timestamp")

REHEARSED = Pipeline(
    name="rehearsal",
    source=Topic(
        name="rehearsal",
        schema="id bigint NOT NULL, kind string, at timestamp NOT NULL",
        event_time="at",
        time_format="millis",
    ),
    where="kind IS NOT NULL",
    key=("kind",),
    window=Fixed(minutes=10),
    measures={"records": Count(), "ids": Sum("id"), "newest": Max("id")},
    lateness=Lateness(out_of_orderness="5 minutes", allowed="0 seconds"),
)


def make(target: Path) -> bool:
    """Write the archive.

    Args:
        target: File of the archive; an older one is removed first.

    Returns:
        True if the JVM wrote an archive.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(prefix=".classes-", dir=target.parent) as folder:
        scratch = Path(folder)
        fresh = scratch / target.name
        options = f'"-XX:ArchiveClassesAtExit={fresh}" {spark.QUIET_ARCHIVE}'
        settings = Settings(home=scratch, spark=SparkSettings(conf={JAVA_OPTIONS: options}))
        session = spark.session(settings, app="cutover-rehearsal")
        with contextlib.suppress(subprocess.TimeoutExpired):
            _run_micro_batches(session, scratch / "checkpoint")
            _end_jvm(session)
        if fresh.is_file():
            fresh.replace(target)
        return target.is_file()


def _run_micro_batches(session: "SparkSession", checkpoint: Path) -> None:
    """Run micro-batches like those of the stream."""

    def process_batch(batch: "DataFrame", number: int) -> None:  # noqa: ARG001 -- Spark's signature
        rows = parser.parse_records(batch, REHEARSED)
        classified = classify.classify_records(rows, REHEARSED, watermark_micros=0)
        partials.aggregate_partials(classified, REHEARSED).toArrow()

    records = session.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS).load().selectExpr(*_COLUMNS)
    writer = records.writeStream.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    writer.foreachBatch(process_batch).start().awaitTermination(TIMEOUT_SECONDS)


def _end_jvm(session: "SparkSession") -> None:
    """Close the gateway and its pipe, so that the JVM exits normally and writes its archive."""
    gateway: Any = session.sparkContext._gateway  # noqa: SLF001 -- the only access to the process in PySpark
    process: subprocess.Popen[bytes] = gateway.proc
    session.stop()
    gateway.shutdown()
    if process.stdin is not None:
        process.stdin.close()
    process.wait(timeout=TIMEOUT_SECONDS)


def main() -> int:
    """Write the archive of this environment, which is optional: without it, Spark starts more slowly."""
    if not make(spark.archive()):
        sys.stdout.write("  this Java writes no class archive: Spark starts some seconds more slowly\n")
    sys.stdout.flush()
    return 0


if __name__ == "__main__":
    code = main()
    # The gateway's threads wait for the ended JVM; the exit must not wait for them.
    os._exit(code)
