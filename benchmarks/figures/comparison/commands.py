"""Processor time of commands, user and system, each in a separate process."""

import resource
import subprocess
import sys
from functools import partial
from pathlib import Path

from benchmarks.bench import Bench
from benchmarks.results.figure import Figure, value
from benchmarks.rounds import measure_interleaved
from benchmarks.workloads import events
from cutover.pipeline_lake import PipelineLake
from cutover.settings import Settings
from cutover.streaming import driver
from cutover.streaming.process import heartbeat

RECORDS = 5_000
NAME = "commands"
COMMANDS = {
    "help": ("--help",),
    "lint": ("lint",),
    "status": ("status",),
    "sql": ("sql", NAME, "SELECT count(*) FROM serving"),
    "watch": ("watch", NAME, "--once"),
    "gate": ("gate", NAME, "show"),
}
"""Arguments of each command; the goal of a command is `command_<name>`."""


def measure_commands(bench: Bench) -> Figure:
    """Measure the processor time of each command in seconds, by rounds, over a stream that was drained once."""
    pipeline = events.define(bench.settings, NAME, cap=RECORDS)
    events.fill(bench.settings, pipeline.source.name, events.generate_events(RECORDS))
    driver.run_driver(PipelineLake(bench.settings, pipeline), until="drain")
    variants = {name: partial(_processor_time, bench.settings, words) for name, words in COMMANDS.items()}
    samples = measure_interleaved(variants, bench.rounds)
    return Figure(
        name=NAME,
        title="Processor time of a command",
        values=tuple(value(f"command_{name}", numbers) for name, numbers in samples.items()),
        sizes={"records": RECORDS, "rounds": bench.rounds},
        unit="s",
        samples=samples,
        notes=(
            "User and system time of one process, as reported by the shell's `time`; setup has compiled the packages.",
        ),
    )


def _processor_time(settings: Settings, arguments: tuple[str, ...], _: int) -> float:
    command = Path(sys.executable).with_name("cutover")
    usage_before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [command, *arguments], env=heartbeat.make_environment(settings), stdout=subprocess.DEVNULL, check=True
    )
    usage_after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage_after.ru_utime + usage_after.ru_stime - usage_before.ru_utime - usage_before.ru_stime
