"""Demonstration: a year of departures through broker, stream, batch and reconciler, run by Airflow's DAGs."""

import getpass
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial

from cutover import driver_state
from cutover.counts import count_noun
from cutover.definition.loading import catalogue
from cutover.errors import DefinitionError
from cutover.infra import installation
from cutover.infra.airflow import instance, samples
from cutover.infra.airflow.api import Api
from cutover.infra.demo.inputs import BILLING, BUDGETS, SamplePart, parts, send_ads, send_part
from cutover.infra.demo.runs import Runs, RunVerdict
from cutover.infra.processes.family import PeakMemory
from cutover.infra.processes.ports import Ports
from cutover.infra.processes.supervisor import Supervisor
from cutover.lake import batch_runs
from cutover.output.console import show_spinner
from cutover.pipeline_lake import PipelineLake
from cutover.settings import Settings
from cutover.timestamps import from_micros

PIPELINE = "flights"
SHOWS = (PIPELINE, BILLING)
SETTLED = timedelta(seconds=3)  # an earlier heartbeat may not cover the records that were just sent


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoStep:
    """Step of a demonstration: the input to send, and the pipelines to compare after it."""

    pipelines: tuple[str, ...]
    send: Callable[[Settings], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOutcome:
    """Result of a demonstration: verdicts, duration and peak memory."""

    verdicts: tuple[RunVerdict, ...]
    seconds: float
    peak_bytes: int
    pipelines: int = 1  # of the last step

    @property
    def exit_code(self) -> int:
        """Highest exit code among the latest verdicts, one per pipeline."""
        return max(verdict.exit_code for verdict in self.verdicts[-self.pipelines :])


def make_demo_steps(pipeline: str, count: int) -> tuple[DemoStep, ...]:
    """Make the steps of a demonstration, in order.

    Raises:
        DefinitionError: There is no such demonstration, or it cannot be split into that many parts.
    """
    if pipeline == PIPELINE:
        return tuple(DemoStep(pipelines=(PIPELINE,), send=partial(_send, part)) for part in parts(count))
    if pipeline not in SHOWS:
        msg = f"Option `--pipeline`: expected {' or '.join(SHOWS)}, got `{pipeline[:80]}`."
        raise DefinitionError(msg)
    if count != 1:
        msg = f"Option `--parts`: expected 1 for `{pipeline}`, got {count}."
        raise DefinitionError(msg)
    return (DemoStep(pipelines=(BILLING, BUDGETS), send=send_ads),)


def _send(part: SamplePart, settings: Settings) -> None:
    send_part(settings, PIPELINE, catalogue.get(settings, PIPELINE).source.name, part)


def main(settings: Settings, *, pipeline: str, count: int) -> int:
    """Start the installation, run the demonstration, print its results, and return the verdict's exit code."""
    demo_steps = make_demo_steps(pipeline, count)  # invalid options are rejected before anything starts
    started = time.monotonic()
    with show_spinner("starting") as report_progress:
        running = installation.start_installation(settings, broker_only=False, report_progress=report_progress)
    outcome = run_demo_steps(settings, running.ports, demo_steps)
    outcome = replace(outcome, seconds=time.monotonic() - started)
    sys.stdout.write("\n".join(describe_outcome(settings, outcome, running.ports, pipeline)) + "\n")
    return outcome.exit_code


def run_demo_steps(settings: Settings, ports: Ports, demo_steps: Sequence[DemoStep]) -> DemoOutcome:
    """Run all steps of the demonstration on a running installation.

    Raises:
        CutoverError: A step failed; the message names it and its log.
    """
    started, api = time.monotonic(), instance.api(settings, ports)
    with PeakMemory(lambda: list_root_pids(settings)) as memory:
        verdicts = [verdict for step in demo_steps for verdict in run_step(settings, api, step)]
    return DemoOutcome(
        verdicts=tuple(verdicts),
        seconds=time.monotonic() - started,
        peak_bytes=memory.peak,
        pipelines=len(demo_steps[-1].pipelines),
    )


def run_step(settings: Settings, api: Api, step: DemoStep) -> list[RunVerdict]:
    """Send a step's input; stream, recompute and compare it for each pipeline, and print the verdicts."""
    samples.turn_on(settings, set(step.pipelines) & set(samples.FURTHER))
    step.send(settings)
    settled_at = datetime.now(UTC) + SETTLED
    verdicts = []
    for name in step.pipelines:
        runs = Runs(api=api, settings=settings, pipeline=name)
        runs.start_stream()
        epoch = runs.read_all(not_before=settled_at)
        sys.stdout.write(f"{name}: the stream has read the log up to its end, epoch {epoch}.\n")
        batch_run = runs.recompute()
        sys.stdout.write(f"{name}: {describe_recompute(settings, name)}\n")
        verdict = runs.wait_verdict(batch_run)
        sys.stdout.write(f"{name}: {verdict.verdict}: {verdict.sentence}\n  {verdict.report}\n")
        verdicts.append(verdict)
    return verdicts


def describe_recompute(settings: Settings, name: str) -> str:
    """Describe the latest batch run of a pipeline in a sentence: offsets, epoch of the cut, range of windows."""
    run = batch_runs.read_effective_runs(PipelineLake(settings, catalogue.get(settings, name)))[-1]
    records = sum(end - start for start, end in run.scanned.values())
    days = [f"{from_micros(at):%Y-%m-%d}" for at in (run.computed[0][0], run.computed[-1][1])] if run.computed else []
    windows = f"every window from {days[0]} to {days[1]}" if days else "no window"
    return f"batch has read {count_noun(records, 'offset')} up to epoch {run.epoch} and computed {windows}."


def list_root_pids(settings: Settings) -> Iterator[int]:
    """Yield the ids of the installation's root processes: supervisor, drivers, and this command."""
    yield os.getpid()
    supervisor = Supervisor(settings.home.resolve()).identity()
    if supervisor is not None:
        yield supervisor.pid
    yield from (driver.identity.pid for driver in driver_state.list_drivers(settings.run_dir) if driver.alive)


def describe_outcome(settings: Settings, outcome: DemoOutcome, ports: Ports, name: str) -> list[str]:
    """List the closing lines of the demonstration: verdicts, addresses, duration, memory and next steps."""
    verdicts, url = outcome.verdicts[-outcome.pipelines :], instance.format_airflow_address(ports)
    user = f"{getpass.getuser()}@{socket.gethostname()}"
    password = instance.password(settings) if sys.stdout.isatty() else f"in {instance.passwords_file(settings)}"
    verdict_lines = [(f"{v.verdict}: {v.sentence}", f"Report    {v.report}") for v in verdicts]
    return [
        "",
        *(line for lines in verdict_lines for line in lines),
        f"Airflow   {url}  (user {instance.ADMIN}, password {password})",
        f"Elsewhere ssh -L {ports.airflow}:127.0.0.1:{ports.airflow} {user}  makes it reachable from another machine",
        f"Took      {outcome.seconds:.0f} s, at most {outcome.peak_bytes / 1e9:.1f} GB of memory in all processes",
        f'Next      `cutover status`, `cutover gate {name} show`, `cutover sql {name} "..."`; `cutover down` stops it',
    ]
