"""What a command costs before it answers: processor time of a process of its own, user and system."""

import resource
import subprocess
import sys
from functools import partial
from pathlib import Path

from benchmarks.bench import Bench
from benchmarks.made import events
from benchmarks.rounds import interleaved
from benchmarks.shown.figure import Figure, value
from cutover.settings import Settings
from cutover.streaming import driver
from cutover.streaming.process import detached

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
"""Name of a goal, behind `command_`, to the arguments."""


def measure(bench: Bench) -> Figure:
    """Return the seconds of processor time that each command takes, by rounds, over a stream with one drain."""
    pipeline = events.define(bench.settings, NAME, cap=RECORDS)
    events.fill(bench.settings, pipeline.source.name, events.stream_of(RECORDS))
    driver.run(bench.settings, pipeline, until="drain")
    variants = {name: partial(_processor_time, bench.settings, words) for name, words in COMMANDS.items()}
    samples = interleaved(variants, bench.rounds)
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


def _processor_time(settings: Settings, words: tuple[str, ...], _: int) -> float:
    command = Path(sys.executable).with_name("cutover")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([command, *words], env=detached.environment(settings), stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
