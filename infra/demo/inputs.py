"""Inputs of the demonstrations: flights in parts of a year, ads from a seed, each sent at most once."""

import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

from cutover.errors import DefinitionError
from cutover.log.kafka import LogClient
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
