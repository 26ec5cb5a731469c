"""The demonstration: a year of departures through broker, stream, batch and reconciler, by Airflow's DAGs."""

import getpass
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial

from cutover.definition.loading import catalogue
from cutover.errors import DefinitionError
from cutover.infra import start
from cutover.infra.airflow import instance, samples
from cutover.infra.airflow.api import Api
from cutover.infra.demo import ads
from cutover.infra.demo.runs import Runs, RunVerdict
from cutover.infra.demo.sample import SamplePart, parts, send
from cutover.infra.processes import drivers
from cutover.infra.processes.memory import PeakMemory
from cutover.infra.processes.ports import Ports
from cutover.infra.processes.supervisor import Supervisor
from cutover.lake import batch_runs
from cutover.output.console import show_spinner
from cutover.settings import Settings
from cutover.timestamps import from_micros

PIPELINE = "flights"
SHOWS = (PIPELINE, ads.BILLING)
SETTLED = timedelta(seconds=3)  # a heartbeat may repeat what the driver knew a moment ago


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoStep:
    """Input that is sent, and the pipelines whose verdicts are shown after it."""

    pipelines: tuple[str, ...]
    send: Callable[[Settings], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOutcome:
    """What the demonstration showed."""

    verdicts: tuple[RunVerdict, ...]
    seconds: float
    peak_bytes: int
    pipelines: int = 1  # of the last step

    @property
    def exit_code(self) -> int:
        """Return the worst of the newest verdicts, one a pipeline."""
        return max(verdict.exit_code for verdict in self.verdicts[-self.pipelines :])


def steps(pipeline: str, count: int) -> tuple[DemoStep, ...]:
    """Return what is sent and shown, in order.

    Raises:
        DefinitionError: There is no such demonstration, or it has not that many parts.
    """
    if pipeline == PIPELINE:
        return tuple(DemoStep(pipelines=(PIPELINE,), send=partial(_send, part)) for part in parts(count))
    if pipeline not in SHOWS:
        msg = f"Option `--pipeline`: expected {' or '.join(SHOWS)}, got `{pipeline[:80]}`."
        raise DefinitionError(msg)
    if count != 1:
        msg = f"Option `--parts`: expected 1 for `{pipeline}`, got {count}."
        raise DefinitionError(msg)
    return (DemoStep(pipelines=(ads.BILLING, ads.BUDGETS), send=ads.send),)


def _send(part: SamplePart, settings: Settings) -> None:
    send(settings, PIPELINE, catalogue.get(settings, PIPELINE).source.name, part)


def main(settings: Settings, *, pipeline: str, count: int) -> int:
    """Bring everything up, do the demonstration, say where to look, and return the verdict's exit code."""
    wanted = steps(pipeline, count)  # refused before anything starts
    started = time.monotonic()
    with show_spinner("starting") as tell:
        running = start.up(settings, broker_only=False, tell=tell)
    outcome = run(settings, running.ports, wanted)
    outcome = replace(outcome, seconds=time.monotonic() - started)
    sys.stdout.write("\n".join(closing_lines(settings, outcome, running.ports, pipeline)) + "\n")
    return outcome.exit_code


def run(settings: Settings, ports: Ports, demo_steps: Sequence[DemoStep]) -> DemoOutcome:
    """Do the whole demonstration on an installation that is up.

    Raises:
        CutoverError: A step failed; the message says which and where its log is.
    """
    started, api = time.monotonic(), instance.api(settings, ports)
    with PeakMemory(lambda: roots(settings)) as memory:
        summaries = [show(settings, api, step) for step in demo_steps]
    return DemoOutcome(
        verdicts=tuple(verdict for verdicts in summaries for verdict in verdicts),
        seconds=time.monotonic() - started,
        peak_bytes=memory.peak,
        pipelines=len(demo_steps[-1].pipelines),
    )


def show(settings: Settings, api: Api, step: DemoStep) -> list[RunVerdict]:
    """Send a step's input; let each pipeline's stream read it, recompute it, compare, and say the verdict."""
    samples.turn_on(settings, set(step.pipelines) & set(samples.FURTHER))
    step.send(settings)
    settled_by = datetime.now(UTC) + SETTLED
    verdicts = []
    for name in step.pipelines:
        runs = Runs(api=api, settings=settings, pipeline=name)
        runs.start_stream()
        epoch = runs.read_all(since=settled_by)
        sys.stdout.write(f"{name}: the stream has read the log up to its end, epoch {epoch}.\n")
        batch_run = runs.recompute()
        sys.stdout.write(f"{name}: {describe_recompute(settings, name)}\n")
        verdict = runs.verdict(batch_run)
        sys.stdout.write(f"{name}: {verdict.verdict}: {verdict.sentence}\n  {verdict.report}\n")
        verdicts.append(verdict)
    return verdicts


def describe_recompute(settings: Settings, name: str) -> str:
    """Return what the newest batch run of a pipeline has computed, as a sentence: records, days, its cut."""
    run = batch_runs.runs(settings, catalogue.get(settings, name))[-1]
    records = sum(end - start for start, end in run.scanned.values())
    days = [f"{from_micros(at):%Y-%m-%d}" for at in (run.computed[0][0], run.computed[-1][1])] if run.computed else []
    windows = f"every window from {days[0]} to {days[1]}" if days else "no window"
    return f"the batch has read {records:,} offsets up to epoch {run.epoch} and computed {windows}."


def roots(settings: Settings) -> Iterator[int]:
    """Return the processes whose families are the installation: supervisor, drivers, this command."""
    yield os.getpid()
    supervisor = Supervisor(settings.home.resolve()).identity()
    if supervisor is not None:
        yield supervisor.pid
    yield from (driver.identity.pid for driver in drivers.list_drivers(settings.run_dir) if driver.alive)


def closing_lines(settings: Settings, outcome: DemoOutcome, ports: Ports, name: str) -> list[str]:
    """Return what the demonstration says at its end."""
    newest, url = outcome.verdicts[-outcome.pipelines :], instance.address(ports)
    user = f"{getpass.getuser()}@{socket.gethostname()}"
    secret = instance.password(settings) if sys.stdout.isatty() else f"in {instance.passwords_file(settings)}"
    return [
        "",
        *(line for report in newest for line in (f"{report.verdict}: {report.sentence}", f"Report    {report.report}")),
        f"Airflow   {url}  (user {instance.ADMIN}, password {secret})",
        f"Elsewhere ssh -L {ports.airflow}:127.0.0.1:{ports.airflow} {user}  makes it reachable from another machine",
        f"Took      {outcome.seconds:.0f} s, at most {outcome.peak_bytes / 1e9:.1f} GB of memory in all processes",
        f'Next      `cutover status`, `cutover gate {name} show`, `cutover sql {name} "..."`; `cutover down` ends it',
    ]
