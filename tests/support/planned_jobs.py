"""The jobs of the parity tests, planned by a real Spark without the systems that they name.

`python -m tests.support.planned_jobs` counts the constructs detected in them by text and by plan (docs/parity.md).
"""

import runpy
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from pyspark.sql import DataFrame, DataFrameReader, DataFrameWriter, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader, DataStreamWriter

from cutover.cli.parity import check_file
from cutover.engine.spark import session as start_session
from cutover.parity.plans import live
from cutover.parity.rules import ParityFinding
from cutover.settings import Settings
from tests.support.suite.quick_spark import QUICK

FOLDER = Path(__file__).parents[1] / "unit" / "parity" / "jobs"
JOBS = sorted(path for path in FOLDER.iterdir() if path.suffix in {".sql", ".py"})

BY_TYPES = {"sampled.sql": {"float-sum"}}
"""What a job's text cannot show: a mean of a column that is a double in its table."""

WAYS = ("text", "DataFrame", "extended", "formatted", "toJSON")

TABLES = {
    "lines": "order_id string, item string",
    "changes": "id string, updated_at timestamp, _partition int, _offset bigint",
    "sales": "day date, shop string, price decimal(18, 2), quantity int",
    "clicks": "user_id string, window_start timestamp, channel string, at timestamp, _partition int, _offset bigint",
    "orders": "id string, ordered_at timestamp",
    "cut": "watermark timestamp",
    "events": "window_start timestamp, shop string, amount string",
    "visits": "at timestamp, ip string",
    "readings": "device string, at timestamp, value double, temperature double",
    "users": "address string, joined_at timestamp",
}
KAFKA = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"


def list_expected_constructs(job: Path) -> set[str]:
    """Return the constructs that a job's first line names."""
    annotation = job.read_text(encoding="utf-8").splitlines()[0].partition("expects:")[2]
    return {word.strip() for word in annotation.split(",")} - {"none"}


def plan_job(session: SparkSession, job: Path) -> list[DataFrame]:
    """Return the DataFrames that a job would write, or that a statement would give."""
    for name, columns in TABLES.items():
        session.createDataFrame([], columns).createOrReplaceTempView(name)
    session.conf.unset("spark.sql.session.timeZone")
    if job.suffix == ".sql":
        return [session.sql(job.read_text(encoding="utf-8"))]
    with _caught(session) as frames:
        runpy.run_path(str(job))
    return frames


@contextmanager
def _caught(session: SparkSession) -> Iterator[list[DataFrame]]:
    """Let a job run up to where it would write."""
    frames: list[DataFrame] = []
    load_stream = DataStreamReader.load

    def get_session(builder: Any) -> SparkSession:
        for key, value in builder._options.items():
            session.conf.set(key, value)
        return session

    def load(_: object, path: str | None = None) -> DataFrame:
        return session.createDataFrame([], KAFKA if path is None else TABLES[Path(path).name])

    def catch(writer: Any, *_: object, **__: object) -> None:
        frames.append(writer._df)

    def load_kafka(reader: Any) -> DataFrame:
        return load_stream(reader.option("kafka.bootstrap.servers", "127.0.0.1:1"))

    with (
        patch.object(SparkSession.Builder, "getOrCreate", get_session),
        patch.object(DataFrameReader, "load", load),
        patch.object(DataStreamReader, "load", load_kafka),
        patch.object(DataFrameWriter, "save", catch),
        patch.object(DataFrameWriter, "saveAsTable", catch),
        patch.object(DataStreamWriter, "start", catch),
    ):
        yield frames


def explain(frame: DataFrame, mode: str) -> str:
    """Return what `frame.explain(mode)` prints."""
    java: Any = frame.sparkSession._jvm
    kind = java.org.apache.spark.sql.execution.ExplainMode.fromString(mode)
    return str(frame._jdf.queryExecution().explainString(kind))


def find_constructs(way: str, job: Path, frames: list[DataFrame]) -> set[str]:
    """Return the constructs that one method detects in a job."""
    looks: dict[str, Callable[[DataFrame], tuple[ParityFinding, ...]]] = {
        "DataFrame": live.check_frame,
        "extended": lambda frame: live.check_text(explain(frame, way), way),
        "formatted": lambda frame: live.check_text(explain(frame, way), way),
        "toJSON": lambda frame: live.check_text(frame._jdf.queryExecution().analyzed().toJSON(), way),
    }
    findings = check_file(job) if way == "text" else [finding for frame in frames for finding in looks[way](frame)]
    return {str(finding.construct) for finding in findings}


def main() -> None:
    """Print the constructs found, missed and wrongly raised by each method."""
    tally: dict[str, Counter[str]] = {way: Counter() for way in WAYS}
    with tempfile.TemporaryDirectory() as home:
        session = start_session(Settings(home=Path(home), spark=QUICK), app="jobs").newSession()
        session.conf.set("spark.sql.debug.maxToStringFields", "10000")
        for job in JOBS:
            expected_constructs = list_expected_constructs(job) | BY_TYPES.get(job.name, set())
            frames = plan_job(session, job)
            for way in WAYS:
                constructs = find_constructs(way, job, frames)
                tally[way].update({f"found {construct}": 1 for construct in expected_constructs & constructs})
                tally[way].update(
                    {f"missed {construct} ({job.name})": 1 for construct in expected_constructs - constructs}
                )
                tally[way].update(
                    {f"wrong {construct} ({job.name})": 1 for construct in constructs - expected_constructs}
                )
    sys.stdout.write("| way | found | missed | wrongly raised |\n|---|---|---|---|\n")
    for way, counts in tally.items():
        found_count = sum(number for outcome, number in counts.items() if outcome.startswith("found"))
        wrong_names = (
            sorted(outcome.partition(" ")[2] for outcome in counts if outcome.startswith(w))
            for w in ("missed", "wrong")
        )
        cells = " | ".join(f"{len(names)}: {', '.join(names)}" if names else "0" for names in wrong_names)
        sys.stdout.write(f"| {way} | {found_count} | {cells} |\n")


if __name__ == "__main__":
    main()
