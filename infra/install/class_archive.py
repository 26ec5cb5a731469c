"""The JVM's class archive: the classes of a driver, parsed and verified once, so that every Spark starts faster.

A rehearsal loads what a micro-batch needs, without a broker and without the network; then the JVM writes its archive
(class data sharing) as it ends. It belongs to the installed environment, like the JARs. A JVM that cannot use it, since
Java or a JAR is another one now, starts without it.
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

WITHIN_SECONDS = 120
"""How long the JVM may take to write its archive."""

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
        target: Its file; an older one is removed first.

    Returns:
        Whether the JVM wrote one.
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
            _end(session)
        if fresh.is_file():
            fresh.replace(target)
        return target.is_file()


def _run_micro_batches(session: "SparkSession", checkpoint: Path) -> None:
    """Run micro-batches as the stream does."""

    def take(batch: "DataFrame", number: int) -> None:  # noqa: ARG001 -- Spark's signature
        rows = parser.parse_records(batch, REHEARSED)
        classified = classify.classify_records(rows, REHEARSED, watermark_micros=0)
        partials.aggregate_partials(classified, REHEARSED).toArrow()

    records = session.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS).load().selectExpr(*_COLUMNS)
    writer = records.writeStream.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    writer.foreachBatch(take).start().awaitTermination(WITHIN_SECONDS)


def _end(session: "SparkSession") -> None:
    """Let the JVM end by itself: it does when nobody can talk to it any more."""
    gateway: Any = session.sparkContext._gateway  # noqa: SLF001 -- PySpark names the process nowhere else
    process: subprocess.Popen[bytes] = gateway.proc
    session.stop()
    gateway.shutdown()
    if process.stdin is not None:
        process.stdin.close()
    process.wait(timeout=WITHIN_SECONDS)


def main() -> int:
    """Make the archive of this environment; without one everything works, and starts more slowly."""
    archive = make(spark.archive())
    if not archive:
        sys.stdout.write("  this Java writes no class archive: Spark starts some seconds more slowly\n")
    sys.stdout.flush()
    return 0


if __name__ == "__main__":
    code = main()
    # The gateway's threads wait for a JVM that is gone: the exit must not wait for them.
    os._exit(code)
