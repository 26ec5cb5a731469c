"""Demonstration: a year of departures through broker, stream, batch and reconciler, run by Airflow's DAGs.

Its inputs are flights in parts of a year and ads from a seed, each sent at most once.
"""

import getpass
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import pairwise
from pathlib import Path

from cutover import driver_state
from cutover.counts import count_noun
from cutover.definition.loading import catalogue
from cutover.errors import DefinitionError
from cutover.infra import installation
from cutover.infra.airflow import instance
from cutover.infra.airflow.instance import Api
from cutover.infra.demo.runs import Runs, RunVerdict
from cutover.infra.processes.family import PeakMemory
from cutover.infra.processes.supervisor import Ports, Supervisor
from cutover.lake import batch_runs
from cutover.log.kafka import LogClient
from cutover.output.console import show_spinner
from cutover.pipeline_lake import PipelineLake
from cutover.records.sending.produced import ProducedNotes, ProducedRun, file_sha256
from cutover.samples import ad_billing
from cutover.settings import Settings
from cutover.timestamps import from_micros, to_micros

SAMPLE = Path(__file__).resolve().parents[2] / "data" / "nycflights13.csv.gz"
YEAR = 2013
MAX_PARTS = 12
VIEWERS, DAYS, SEED = 400, 4, 1
BILLING, BUDGETS = "ad_billing", "ad_budgets"
CLICKS = "ad_clicks"


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplePart:
    """Range of the sample's log time, `[start, end)` in microseconds; None: unbounded."""

    start: int | None = None
    end: int | None = None


def parts(count: int) -> tuple[SamplePart, ...]:
    """Split the year into `count` parts of whole months.

    Raises:
        DefinitionError: `count` is not between 1 and 12.
    """
    if not 1 <= count <= MAX_PARTS:
        msg = f"Option `--parts`: expected 1 to {MAX_PARTS}, got {count}."
        raise DefinitionError(msg)
    months = (datetime(YEAR, 1 + MAX_PARTS * i // count, 1, tzinfo=UTC) for i in range(1, count))
    edges = [None, *map(to_micros, months), None]
    return tuple(SamplePart(start=start, end=end) for start, end in pairwise(edges))


def find_unsent_part(part: SamplePart, produced_runs: Iterable[ProducedRun]) -> SamplePart | None:
    """Return the rest of a part that was not sent yet; None if all of it was. Parts are sent in order.

    Args:
        part: Part of the sample.
        produced_runs: Runs of `cutover produce` with the same file.
    """
    unsent = part
    for run in sorted(produced_runs, key=lambda run: run.start or 0):
        covers_start = run.start is None or (unsent.start is not None and run.start <= unsent.start)
        if not (covers_start and run.finished):
            continue
        if run.end is None or (unsent.end is not None and run.end >= unsent.end):
            return None
        if unsent.start is None or run.end > unsent.start:
            unsent = replace(unsent, start=run.end)
    return unsent


def send_part(settings: Settings, pipeline: str, topic: str, part: SamplePart) -> int:
    """Send the rest of a part that is not in the topic; return the number of commands that were run, 0 or 1.

    Raises:
        DefinitionError: `cutover produce` failed; it has printed the reason.
        LogError: The broker does not answer.
    """
    unsent = find_unsent_part(part, list_produced_runs(settings, topic, SAMPLE))
    if unsent is None:
        sys.stdout.write(f"Topic `{topic}` holds the sample already.\n")
        return 0
    bounds = (("--from", unsent.start), ("--to", unsent.end))
    options = [text for flag, at in bounds if at is not None for text in (flag, from_micros(at).isoformat())]
    run_cutover("produce", str(SAMPLE), "--pipeline", pipeline, *options)
    return 1


def send_ads(settings: Settings) -> None:
    """Write the files of the ads once, load their dimension, and send the files that the topics do not hold.

    Raises:
        DefinitionError: A command failed; it has printed the reason.
        LogError: The broker does not answer.
    """
    folder = settings.home.resolve() / "samples" / BILLING
    if not folder.is_dir():
        ad_billing.write(folder, ad_billing.sample(viewers=VIEWERS, days=DAYS, seed=SEED))
    _load_advertisers(folder)
    for topic, file in (("ad_impressions", folder / "impressions.jsonl"), (CLICKS, folder / "clicks.jsonl")):
        if not any(run.finished for run in list_produced_runs(settings, topic, file)):
            run_cutover("produce", str(file), "--pipeline", BILLING, "--topic", topic)


def _load_advertisers(folder: Path) -> None:
    file = str(folder / "advertisers.csv")
    run_cutover("dimension", "load", "advertisers", file, "--key", "advertiser", "--schema", ad_billing.DIMENSION)


def run_cutover(*arguments: str) -> None:
    """Run `cutover` as a user would, with its output on the terminal.

    Raises:
        DefinitionError: It failed; it has printed the reason.
    """
    command = [sys.executable, "-m", "cutover.cli.app", *arguments]
    completed = subprocess.run(command, stdin=subprocess.DEVNULL, check=False)
    if completed.returncode != 0:
        msg = f"Demonstration: expected exit code 0 of `cutover {arguments[0]}`, got {completed.returncode}."
        raise DefinitionError(msg + "\nHint: `make purge` removes an interrupted demonstration.")


def list_produced_runs(settings: Settings, topic: str, file: Path) -> list[ProducedRun]:
    """List the runs of `cutover produce` that sent a file, or a part of it, to the current incarnation of a topic."""
    client = LogClient(settings)
    if topic not in client.topics():
        return []
    digest = file_sha256(file)
    runs = ProducedNotes(settings.home.resolve(), client.describe(topic).topic_id).list_runs()
    return [run for run in runs if run.sha256 == digest]


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
    instance.turn_on_samples(settings, set(step.pipelines) & set(instance.FURTHER_SAMPLES))
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
