"""Processor time of an idle installation, by process, over ten minutes."""

import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import psutil

from benchmarks.bench import Bench
from benchmarks.results.figure import Figure, value
from benchmarks.workloads import events
from benchmarks.workloads.drivers import read_latest_epoch
from benchmarks.workloads.triggers import wait_until
from cutover.infra import installation
from cutover.infra.airflow import instance
from cutover.infra.demo.runs import Runs
from cutover.infra.processes import supervisor
from cutover.infra.processes.supervisor import Supervisor
from cutover.pipeline_lake import PipelineLake
from cutover.process import is_alive
from cutover.settings import Settings
from cutover.streaming.process import heartbeat

SECONDS = 600
SETTLE_SECONDS = 180  # for Airflow's first parses and most JIT compilation of the JVMs
RECORDS = 5_000
PIPELINES = ("idle_one", "idle_two")
TIMEOUT_SECONDS = 600.0
SUPERVISOR = "supervisor"
LOOP_SECONDS = 0.2
"""Processor time of `_time_loop` on the machine for which the goal is defined."""


def measure_idle(bench: Bench) -> Figure:
    """Measure the share of one core that each process of an idle installation uses.

    Raises:
        AssertionError: A process ended or was restarted during the measurement.
    """
    home = bench.settings.home / "idle"
    settings = Settings(home=home, pipelines=home / "pipelines", lake=None)
    loop = min(_time_loop() for _ in range(5))
    with _installation(settings) as watch:
        time.sleep(bench.sized(SETTLE_SECONDS))
        shares = _measure_shares(settings, watch, bench.sized(SECONDS))
    scaled = sum(shares.values()) * LOOP_SECONDS / loop
    return Figure(
        name="idle",
        title="An idle installation: broker, Airflow, two drivers without input, watch",
        values=(value("idle_cpu", (scaled,)),),
        sizes={"seconds": bench.sized(SECONDS), "drivers": len(PIPELINES), "loop_seconds": round(loop, 3)},
        unit="% of one core of this machine",
        samples={name: (round(share, 2),) for name, share in shares.items()}
        | {"sum": (round(sum(shares.values()), 2),)},
        notes=(
            (
                "User and system time, including child processes that ended. The goal is for a machine on which a loop "
                f"of 10^7 additions in Python takes {LOOP_SECONDS:g} s of processor time; the sum is scaled to it by "
                "the time that the loop took here."
            ),
        ),
        full=bench.scale >= 1,
    )


def _time_loop() -> float:
    began, total = time.thread_time(), 0
    for number in range(10_000_000):
        total += number
    return time.thread_time() - began


@contextmanager
def _installation(settings: Settings) -> Iterator[psutil.Popen]:
    """Run a complete installation whose streams have read all records; yield the process of `cutover watch`."""
    pipelines = [events.define(settings, name, cap=RECORDS) for name in PIPELINES]
    _run(settings, "up")
    try:
        client = instance.api(settings, supervisor.choose_ports_for_start(installation.ports_path(settings), names=()))
        for pipeline in pipelines:
            events.fill(settings, pipeline.source.name, events.generate_events(RECORDS))
            Runs(api=client, settings=settings, pipeline=pipeline.name).start_stream()
        for pipeline in pipelines:
            has_read_all = partial(_has_read_all, PipelineLake(settings, pipeline))
            wait_until(has_read_all, timeout=TIMEOUT_SECONDS, interval=1.0)
        with psutil.Popen(
            _command("watch", PIPELINES[0], "--json"),
            env=heartbeat.make_environment(settings),
            stdout=subprocess.DEVNULL,
        ) as watch:
            yield watch
            watch.terminate()
    finally:
        _run(settings, "down")


def _has_read_all(lake: PipelineLake) -> bool:
    record = read_latest_epoch(lake)
    return record is not None and sum(record.end.values()) >= RECORDS


def _measure_shares(settings: Settings, watch: psutil.Popen, seconds: int) -> dict[str, float]:
    """Measure the percentage of a core that each program uses over some seconds, including all of its children."""
    roots = _list_roots(settings) | {"watch": watch.pid}
    seconds_before, began = _count_all(roots), time.monotonic()
    time.sleep(seconds)
    seconds_after, took = _count_all(roots), time.monotonic() - began
    current = _list_roots(settings) | {"watch": watch.pid}
    if current != roots:
        msg = f"An idle installation: expected the same processes for {seconds} s, {roots} became {current}."
        raise AssertionError(msg)
    return {name: 100 * (seconds_after[name] - seconds_before[name]) / took for name in roots}


def _count_all(roots: Mapping[str, int]) -> dict[str, float]:
    """Return the processor seconds of each program; the supervisor's programs are counted separately from it."""
    return {name: count_processor_seconds(pid, with_children=name != SUPERVISOR) for name, pid in roots.items()}


def _list_roots(settings: Settings) -> dict[str, int]:
    """Return the names and pids of the root processes of all programs of the installation."""
    supervisor = Supervisor(settings.home.resolve())
    identity = supervisor.identity()
    beats = {name: heartbeat.find_alive(settings, name) for name in PIPELINES}
    return {
        **{state.name: state.pid for state in supervisor.states()},
        **({} if identity is None else {SUPERVISOR: identity.pid}),
        **{f"driver {name}": beat.pid for name, beat in beats.items() if beat is not None and is_alive(beat.identity)},
    }


def count_processor_seconds(pid: int, *, with_children: bool = True) -> float:
    """Return the processor seconds of a process so far, including its running and ended descendants."""
    process, total = psutil.Process(pid), 0.0
    for member in [process, *(process.children(recursive=True) if with_children else ())]:
        with suppress(psutil.NoSuchProcess):  # it ended a moment ago, and its parent counts it
            times = member.cpu_times()
            total += times.user + times.system
            total += times.children_user + times.children_system if with_children else 0.0
    return total


def _run(settings: Settings, *arguments: str) -> None:
    subprocess.run(_command(*arguments), env=heartbeat.make_environment(settings), stdin=subprocess.DEVNULL, check=True)


def _command(*arguments: str) -> list[str]:
    return [str(Path(sys.executable).with_name("cutover")), *arguments]
