"""Restart of a killed driver: time to its first commit, with a backlog in the log."""

import subprocess
import time
from itertools import pairwise

from benchmarks.bench import Bench
from benchmarks.results.figure import Figure, value
from benchmarks.rounds import measure_interleaved
from benchmarks.workloads import events
from benchmarks.workloads.drivers import commit_file, kill_driver, read_latest_epoch, start_driver
from cutover.definition.model.pipeline import Pipeline
from cutover.lake.control import versions
from cutover.lake.epochs.epoch_log import EpochLog
from cutover.lake.tables import delta
from cutover.log.kafka import LogClient
from cutover.pipeline_lake import PipelineLake
from cutover.streaming.process import heartbeat

BACKLOG = 1_000_000
CAP = 50_000
TIMEOUT_SECONDS = 240.0


def measure_restart(bench: Bench) -> Figure:
    """Measure the seconds from the start of a process to its first commit, by rounds that end with SIGKILL."""
    backlog = bench.sized(BACKLOG)
    pipeline = events.define(bench.settings, "restart", cap=CAP)
    events.fill(bench.settings, pipeline.source.name, events.generate_events(backlog))

    lake = PipelineLake(bench.settings, pipeline)

    def time_restart(_: int) -> float:
        _top_up(bench, pipeline, backlog)
        version = versions.find_current_version(lake)
        latest_version = -1 if version is None else int(delta.open_table(version.uri).version())
        began = time.perf_counter()
        process = start_driver(lake)
        try:
            wait_for_commit(process, bench, pipeline, latest_version)
            return time.perf_counter() - began
        finally:
            kill_driver(process)

    samples = measure_interleaved({"ours": time_restart}, bench.rounds)
    return Figure(
        name="restart",
        title="From the start after SIGKILL to the first commit",
        values=(value("restart", samples["ours"]),),
        sizes={"backlog": backlog, "cap": CAP, "rounds": bench.rounds},
        unit="s",
        samples=samples,
        equal=(_check_epochs(bench, pipeline),),
        notes=("The time includes the start of Python, of the JVM, and of Spark.",),
        full=backlog >= BACKLOG,
    )


def wait_for_commit(process: subprocess.Popen[bytes], bench: Bench, pipeline: Pipeline, latest_version: int) -> None:
    """Wait for a new epoch.

    Raises:
        AssertionError: The driver ended or did not commit in time; the message has the end of its log.
    """
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not _has_committed(bench, pipeline, latest_version):
        if process.poll() is not None or time.monotonic() > deadline:
            log_end = (
                heartbeat.find_log_file(bench.settings, pipeline.name).read_text(encoding="utf-8").strip()[-2_000:]
            )
            msg = f"Driver of `{pipeline.name}`: expected a commit, got exit {process.returncode}: {log_end}"
            raise AssertionError(msg)
        time.sleep(0.01)


def _has_committed(bench: Bench, pipeline: Pipeline, latest_version: int) -> bool:
    """Check for a commit after `latest_version`; the first start also creates the table, as version 0."""
    lake = PipelineLake(bench.settings, pipeline)
    if versions.find_current_version(lake) is None:
        return False
    return commit_file(lake, max(latest_version, 0) + 1).is_file()


def _top_up(bench: Bench, pipeline: Pipeline, backlog: int) -> None:
    """Send as many events as the previous driver has read, so that every round has the same backlog."""
    topic, record = pipeline.source.name, read_latest_epoch(PipelineLake(bench.settings, pipeline))
    record_count = sum(LogClient(bench.settings).latest(topic).values())
    read = 0 if record is None else sum(record.end.values())
    sender = events.make_producer(bench.settings)
    for number, (log_time, text) in enumerate(events.generate_events(backlog - (record_count - read))):
        events.send_record(sender, topic, text, partition=number % events.PARTITIONS, millis=log_time)
    sender.flush(60)


def _check_epochs(bench: Bench, pipeline: Pipeline) -> str:
    """Check that each epoch begins at the end offsets of the previous one, across all kills."""
    version = versions.find_current_version(PipelineLake(bench.settings, pipeline))
    records = [] if version is None else EpochLog(version.uri).records()
    for previous, current in pairwise(records):
        if dict(current.start) != dict(previous.end) or current.epoch != previous.epoch + 1:
            msg = f"Restart: epoch {current.epoch} does not begin where epoch {previous.epoch} ended."
            raise AssertionError(msg)
    return f"{len(records)} epochs follow one another without a gap over {bench.rounds + 1} kills"
