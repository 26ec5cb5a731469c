"""Follower of a hand-written job: records per second, and its processor time divided by that of the job."""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

import psutil

from benchmarks.bench import Bench
from benchmarks.results.figure import Figure, ratio, value
from benchmarks.rounds import Samples
from benchmarks.workloads import events
from benchmarks.workloads.streams import CommitTimes, Streams
from benchmarks.workloads.triggers import listen
from cutover.clock import SystemClock
from cutover.definition import Delta, Lateness, Pipeline, SparkStream
from cutover.pipeline_lake import PipelineLake
from cutover.positions.followed_job import JobArchive
from cutover.streaming import driver

EVENTS = 300_000
CAP = 50_000  # records per micro-batch of the job
IDLE_POLLS = 20


def measure_follow(bench: Bench) -> Figure:
    """Run the job and then its follower in each round; the first round is a warm-up and is dropped."""
    rows = bench.sized(EVENTS)
    pipeline = events.define(bench.settings, "follow", cap=min(CAP, rows // 4))
    events.fill(bench.settings, "follow", events.generate_events(rows))
    triggers = bench.once("triggers", lambda: listen(bench.spark))
    jobs = FollowedStreams(bench=bench, pipeline=pipeline, rows=rows, triggers=triggers)
    rounds = [jobs.run_round(number) for number in range(bench.rounds + 1)][1:]
    samples: Samples = {name: tuple(round(one[name], 4) for one in rounds) for name in rounds[0]}
    compared_rows, records = jobs.compare_tables(
        bench.rounds, "window_start, window_end, k, n, total, worst, ids", summed="n"
    )
    return Figure(
        name="follow",
        title="Follower of a streaming job",
        values=(
            value("follow_rate", tuple(rows / seconds for seconds in samples["follower, s"])),
            ratio("follow_cpu", samples["follower, CPU s"], samples["job, CPU s"]),
            value("follow_poll", samples["idle poll, CPU s"]),
        ),
        sizes={"events": rows, "cap": jobs.pipeline.max_rows_per_epoch, "rounds": bench.rounds},
        unit="s",
        samples=samples,
        equal=(f"the follower's fold and the job's table: {compared_rows:,} rows, all measures; {records:,} events",),
        notes=(
            "Job: native windows, RocksDB, MERGE into Delta. Both run in one warm session; the broker is not counted.",
            "Idle poll: the follower looks for new batches of a job that is idle.",
        ),
        full=rows >= EVENTS,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowedStreams(Streams):
    """A hand-written job, and a follower of it."""

    def for_round(self, number: int) -> Pipeline:
        """Return the definition that follows the job of a round."""
        name = f"hand-{self.pipeline.name}-{number}"
        stream = SparkStream(
            table=Delta(str(self.peer_folder(f"{name}-table"))),
            checkpoint=str(self.peer_folder(name)),
            output_mode="update",
        )
        source = replace(self.pipeline.source, parse="from_json")
        own_name = f"{self.pipeline.name}_{number}"
        return replace(self.pipeline, name=own_name, source=source, stream=stream, lateness=Lateness())

    def run_round(self, number: int) -> dict[str, float]:
        """Run the job, follow it, and look for new batches once it is idle; return seconds."""
        job_seconds, job_processor = _measure(lambda: self.spark_job(number))
        committed, lake = CommitTimes(), PipelineLake(self.settings, self.for_round(number))
        _, processor = _measure(lambda: driver.run_driver(lake, until="drain", probe=committed))
        archive = JobArchive(lake, SystemClock())
        archive.update()
        _, idle = _measure(lambda: [archive.update() for _ in range(IDLE_POLLS)])
        measured = {
            "job, s": job_seconds,
            "job, CPU s": job_processor,
            "follower, s": committed.at[-1] - (committed.planned or committed.at[0]),
            "follower, CPU s": processor,
            "idle poll, CPU s": idle / IDLE_POLLS,
        }
        print(
            f"  round {number}  " + ", ".join(f"{name} {seconds:.3f}" for name, seconds in measured.items()), flush=True
        )
        return measured


def _measure(work: Callable[[], object]) -> tuple[float, float]:
    """Return the seconds of a call, and the processor time of this process and of its JVM meanwhile."""
    began, before = time.perf_counter(), sum(_list_processor_times())
    work()
    return time.perf_counter() - began, sum(_list_processor_times()) - before


def _list_processor_times() -> Iterator[float]:
    own = psutil.Process()
    for process in (own, *own.children(recursive=True)):
        with suppress(psutil.Error):  # it has ended
            if process == own or any("org.apache.spark" in argument for argument in process.cmdline()):
                times = process.cpu_times()
                yield times.user + times.system
