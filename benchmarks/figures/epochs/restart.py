"""How long a driver that was killed needs to its first commit, while a backlog waits in the log."""

import subprocess
import time
from itertools import pairwise

from benchmarks.bench import Bench
from benchmarks.made import events
from benchmarks.made.drivers import commit_file, killed, newest, started
from benchmarks.rounds import interleaved
from benchmarks.shown.figure import Figure, value
from cutover.definition.model.pipeline import Pipeline
from cutover.lake.control import versions
from cutover.lake.epochs.epoch_log import EpochLog
from cutover.lake.tables import delta
from cutover.log.kafka import LogClient
from cutover.streaming.process import detached

BACKLOG = 1_000_000
CAP = 50_000
PATIENCE_SECONDS = 240.0


def measure(bench: Bench) -> Figure:
    """Return the seconds from the start of a new process to its first commit, by rounds; each round ends by SIGKILL."""
    backlog = bench.sized(BACKLOG)
    pipeline = events.define(bench.settings, "restart", cap=CAP)
    events.fill(bench.settings, pipeline.source.name, events.stream_of(backlog))

    def again(_: int) -> float:
        _top_up(bench, pipeline, backlog)
        version = versions.current(bench.settings, pipeline)
        known = -1 if version is None else int(delta.open_table(version.uri).version())
        began = time.perf_counter()
        process = started(bench.settings, pipeline)
        try:
            first_commit(process, bench, pipeline, known)
            return time.perf_counter() - began
        finally:
            killed(process)

    samples = interleaved({"ours": again}, bench.rounds)
    return Figure(
        name="restart",
        title="From the start after SIGKILL to the first commit",
        values=(value("restart", samples["ours"]),),
        sizes={"backlog": backlog, "cap": CAP, "rounds": bench.rounds},
        unit="s",
        samples=samples,
        equal=(_contiguous(bench, pipeline),),
        notes=("The time includes the start of Python, of the JVM, and of Spark.",),
        full=backlog >= BACKLOG,
    )


def first_commit(process: subprocess.Popen[bytes], bench: Bench, pipeline: Pipeline, known: int) -> None:
    """Wait for a new epoch.

    Raises:
        AssertionError: None came; with the last line of the driver's log.
    """
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not _committed(bench, pipeline, known):
        if process.poll() is not None or time.monotonic() > deadline:
            said = detached.log_file(bench.settings, pipeline.name).read_text(encoding="utf-8").strip()[-2_000:]
            msg = f"Driver of `{pipeline.name}`: expected a commit, got exit {process.returncode}: {said}"
            raise AssertionError(msg)
        time.sleep(0.01)


def _committed(bench: Bench, pipeline: Pipeline, known: int) -> bool:
    """Return whether an epoch is there that was not; the first start makes the table itself before."""
    if versions.current(bench.settings, pipeline) is None:
        return False
    return commit_file(bench.settings, pipeline, max(known, 0) + 1).is_file()


def _top_up(bench: Bench, pipeline: Pipeline, backlog: int) -> None:
    """Send what the driver before has read, so that every round finds the same backlog."""
    topic, record = pipeline.source.name, newest(bench.settings, pipeline)
    held = sum(LogClient(bench.settings).latest(topic).values())
    read = 0 if record is None else sum(record.end.values())
    sender = events.producer(bench.settings)
    for number, (log_time, text) in enumerate(events.stream_of(backlog - (held - read))):
        events.put(sender, topic, text, partition=number % events.PARTITIONS, millis=log_time)
    sender.flush(60)


def _contiguous(bench: Bench, pipeline: Pipeline) -> str:
    """Compare each epoch's first offsets with the last ones of the epoch before, over all kills."""
    version = versions.current(bench.settings, pipeline)
    records = [] if version is None else EpochLog(version.uri).records()
    for before, after in pairwise(records):
        if dict(after.start) != dict(before.end) or after.epoch != before.epoch + 1:
            msg = f"Restart: epoch {after.epoch} does not begin where epoch {before.epoch} ended."
            raise AssertionError(msg)
    return f"{len(records)} epochs follow one another without a gap over {bench.rounds + 1} kills"
