"""The demonstration: a year of departures through broker, stream, batch and reconciler, by Airflow's DAGs."""

import getpass
import os
import socket
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from cutover.definition import catalogue
from cutover.settings import Settings
from infra import airflow, drivers, start
from infra.demo_runs import Runs, Verdict
from infra.demo_sample import Part, parts, send
from infra.memory import PeakMemory
from infra.ports import Ports
from infra.progress import progress
from infra.supervisor import Supervisor

PIPELINE = "flights"
SETTLED = timedelta(seconds=3)  # a heartbeat may repeat what the driver knew a moment ago


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What the demonstration showed."""

    verdicts: tuple[Verdict, ...]
    seconds: float
    peak_bytes: int

    @property
    def exit_code(self) -> int:
        """Return the newest verdict's."""
        return self.verdicts[-1].exit_code


def main(settings: Settings, *, count: int) -> int:
    """Bring everything up, do the demonstration, say where to look, and return the verdict's exit code."""
    parts(count)  # refused before anything starts
    begun = time.monotonic()
    with progress("starting") as tell:
        running = start.up(settings, broker_only=False, tell=tell)
    outcome = run(settings, running.ports, count=count)
    outcome = replace(outcome, seconds=time.monotonic() - begun)
    sys.stdout.write("\n".join(closing_lines(settings, outcome, running.ports)) + "\n")
    return outcome.exit_code


def run(settings: Settings, ports: Ports, *, count: int) -> Outcome:
    """Do the whole demonstration on an installation that is up.

    Raises:
        CutoverError: A step failed; the message says which and where its log is.
    """
    begun = time.monotonic()
    runs = Runs(api=airflow.api(settings, ports), settings=settings, pipeline=PIPELINE)
    topic = catalogue.get(settings, PIPELINE).source.name
    with PeakMemory(lambda: roots(settings)) as memory:
        verdicts = tuple(show_part(runs, topic, part) for part in parts(count))
    return Outcome(verdicts=verdicts, seconds=time.monotonic() - begun, peak_bytes=memory.peak)


def show_part(runs: Runs, topic: str, part: Part) -> Verdict:
    """Produce one stretch, let the stream read it, recompute it, compare, and say the verdict."""
    send(runs.settings, PIPELINE, topic, part)
    since = datetime.now(UTC) + SETTLED
    runs.start_stream()
    runs.read_all(since=since)
    verdict = runs.verdict(runs.recompute())
    sys.stdout.write(f"{verdict.verdict}: {verdict.sentence}\n  {verdict.report}\n")
    return verdict


def roots(settings: Settings) -> Iterator[int]:
    """Return the processes whose families are the installation: supervisor, drivers, this command."""
    yield os.getpid()
    supervisor = Supervisor(settings.home.resolve()).identity()
    if supervisor is not None:
        yield supervisor.pid
    yield from (driver.identity.pid for driver in drivers.recorded(settings.run_dir) if driver.alive)


def closing_lines(settings: Settings, outcome: Outcome, ports: Ports) -> list[str]:
    """Return what the demonstration says at its end."""
    last, url = outcome.verdicts[-1], airflow.address(ports)
    user = f"{getpass.getuser()}@{socket.gethostname()}"
    secret = airflow.password(settings) if sys.stdout.isatty() else f"in {airflow.passwords_file(settings)}"
    return [
        "",
        f"{last.verdict}: {last.sentence}",
        f"Report    {last.report}",
        f"Airflow   {url}  (user {airflow.ADMIN}, password {secret})",
        f"Elsewhere ssh -L {ports.airflow}:127.0.0.1:{ports.airflow} {user}  makes it reachable from another machine",
        f"Took      {outcome.seconds:.0f} s, at most {outcome.peak_bytes / 1e9:.1f} GB of memory in all processes",
        'Next      `cutover status`, `cutover gate flights show`, `cutover sql flights "..."`; `cutover down` ends it',
    ]
