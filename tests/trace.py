"""Files that one epoch and one comparison visit: `python -m tests.trace` (`--files` names them in order).

A small log, a real broker and Spark. Of each product function the first call is noted, in the order of the calls; a
reader who follows the work from call to call opens the files in this order. A return is a step to a file that was
open before. Those of the path's own room are the main line; the core below is counted separately. A comparison
has two parts: comparing, and recording with the report.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from types import CodeType, FrameType

from pyspark.sql import DataFrame

from cutover.batch import recompute
from cutover.engine.spark import session
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.run import run_reconciliation
from cutover.settings import KafkaSettings, Settings, StreamSettings
from cutover.streaming import driver
from tests.support.drivers.fed import Fed, HandClock
from tests.support.log.logs import ends_of
from tests.support.log.real_log import Writer
from tests.support.rows.measured import PIPELINE, raw_records
from tests.support.servers.broker import running_broker
from tests.support.suite.quick_spark import QUICK

ROOT = Path(__file__).parents[1].resolve()
ROOMS = ("cutover", "streaming", "batch", "reconcile")
Process = Callable[[DataFrame, int], None]
HALF = 60  # records of one epoch
PARTS = {("reconcile/run.py", "record"): "recorded"}
"""Where a further part of the work begins: file and function."""


class Visits:
    """The files of our functions, each at its first call."""

    def __init__(self) -> None:
        self._seen: set[CodeType] = set()
        self._files: list[tuple[str, str]] = []
        self._part = "compared"

    def in_room(self, room: str, part: str = "") -> list[str]:
        """Return the files in the order in which they are opened, those of one room and part; all for `""`."""
        files = (file for name, file in self._files if file.startswith(room) and name.startswith(part))
        return [file for file, _ in groupby(files)]

    def parts(self) -> list[str]:
        """Return the parts of the work in their order."""
        return list(dict.fromkeys(name for name, _ in self._files))

    def describe(self, room: str, part: str = "") -> str:
        """Count files and returns, those of one room first."""
        counts = [(len(set(files)), len(files)) for files in (self.in_room(room, part), self.in_room("", part))]
        return "; ".join(
            f"{name} {files} files, {steps - files} returns"
            for name, (files, steps) in zip((room, "with the core"), counts, strict=True)
        )

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        """Note a call, as `sys.setprofile` reports it."""
        if event != "call" or frame.f_code in self._seen:
            return
        self._seen.add(frame.f_code)
        path = Path(frame.f_code.co_filename).resolve()
        if path.suffix == ".py" and path.is_relative_to(ROOT) and path.relative_to(ROOT).parts[0] in ROOMS:
            file = str(path.relative_to(ROOT))
            self._part = PARTS.get((file, frame.f_code.co_name), self._part)
            self._files.append((self._part, file))


@contextmanager
def tracing(visits: Visits) -> Iterator[None]:
    """Note the calls of this thread."""
    sys.setprofile(visits)
    try:
        yield
    finally:
        sys.setprofile(None)


def trace_calls(visits: Visits, function: Process) -> Process:
    """Return a function that notes what it calls, in whichever thread that is."""

    def run(batch: DataFrame, number: int) -> None:
        with tracing(visits):
            function(batch, number)

    return run


def trace_paths(place: Path, bootstrap: str) -> tuple[Visits, Visits]:
    """Return the visits of the second of two epochs, and of a comparison.

    Args:
        place: A folder for tables.
        bootstrap: A broker.
    """
    settings = Settings(
        home=place,
        kafka=KafkaSettings(bootstrap_servers=bootstrap),
        spark=QUICK,
        stream=StreamSettings(trigger_seconds=0.01, heartbeat_seconds=0.2),
    )
    spark = session(settings, app="trace")
    writer = Writer(settings)
    writer.make(PIPELINE.source.name)
    log = raw_records(2 * HALF)
    writer.write(PIPELINE.source.name, log)
    lake = PipelineLake(settings, PIPELINE)
    fed, epoch, comparison = Fed(spark, lake, HandClock()), Visits(), Visits()
    fed.feed(ends_of(log[:HALF]))
    fed.stream.process_batch = trace_calls(epoch, fed.stream.process_batch)  # type: ignore[assignment,method-assign]
    fed.feed(ends_of(log))
    driver.run_driver(lake, until="final")
    recompute.recompute_windows(lake)
    with tracing(comparison):
        run_reconciliation(lake)
    spark.stop()
    return epoch, comparison


def main(words: Sequence[str] | None = None) -> int:
    """Print what both visit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", action="store_true", help="name the files in order")
    args = parser.parse_args(words)
    with (
        tempfile.TemporaryDirectory(prefix="cutover-trace-") as place,
        running_broker(Path(place) / "broker") as ports,
    ):
        epoch, comparison = trace_paths(Path(place) / "home", f"127.0.0.1:{ports.broker}")
    for name, visits, room in (("epoch", epoch, "streaming/"), ("comparison", comparison, "reconcile/")):
        sys.stdout.write(f"{name}: {visits.describe(room)}\n")
        for part in visits.parts() if len(visits.parts()) > 1 else ():
            sys.stdout.write(f"  {part}: {visits.describe(room, part)}\n")
        if args.files:
            sys.stdout.writelines(f"    {file}\n" for file in visits.in_room(room))
    return 0


if __name__ == "__main__":
    sys.exit(main())
