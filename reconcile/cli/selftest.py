"""`cutover selftest P`: how often the reconciler itself errs on a pipeline, found out on copies of its tables."""

import json
import secrets
import sys
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from cutover.clock import SystemClock
from cutover.definition.loading import catalogue
from cutover.reconcile.result import text
from cutover.reconcile.result.error_rates import KindRates, list_uncounted
from cutover.reconcile.result.rates import Rate
from cutover.reconcile.selftest import record
from cutover.reconcile.selftest.outcome import CLEAN_WINDOWS, SelfTest
from cutover.reconcile.selftest.self_test import self_test
from cutover.settings import Settings, load_settings

_SHOWN = 10
_WIDTH = 190  # of the table: the same in a terminal and in a file


def selftest(
    pipeline: Annotated[str, typer.Argument(help="Name of a pipeline.")],
    *,
    seed: Annotated[int | None, typer.Option("--seed", help="Draws defects; another each time if not given.")] = None,
    trials: Annotated[int, typer.Option("--trials", min=1, max=10_000, help="Comparisons.")] = 40,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Plant defects in copies of both sides and compare: 0 all were found and nothing else, 1 not, 2 no comparison."""
    settings = load_settings()
    found = _run(settings, pipeline, secrets.randbelow(2**31) if seed is None else seed, trials)
    record.record(settings, found, SystemClock())
    if as_json:
        sys.stdout.write(json.dumps(asdict(found) | {"passed": found.passed}, allow_nan=False) + "\n")
    else:
        _print(Console(highlight=False, soft_wrap=True, width=_WIDTH), found)
    raise typer.Exit(0 if found.passed else 1)


def _run(settings: Settings, pipeline: str, seed: int, trials: int) -> SelfTest:
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as shown:
        task = shown.add_task("Comparing copies with planted defects", total=trials)
        return self_test(
            settings,
            catalogue.get(settings, pipeline),
            seed=seed,
            trials=trials,
            clock=SystemClock(),
            progress=lambda done, of: shown.update(task, completed=done, total=of),
        )


def _print(console: Console, found: SelfTest) -> None:
    console.print(_tabulate(found))
    console.print(text.message_text(f"found        {_format_rate(found.detection_rate, 'planted rows')}"))
    console.print(text.message_text(f"false alarms {_format_rate(found.false_alarm_rate, 'clean windows')}"))
    console.print(text.message_text(f"named right  {_format_rate(found.right_cause_rate, 'rows')}"))
    for count, why in list_uncounted(found.rates):
        console.print(text.message_text(f"not counted  {count:,} {why}"))
    for failure in found.failures[:_SHOWN]:
        console.print(f"wrong  {text.message_text(failure)}")
    console.print(text.message_text(_word_result(found)))


def _tabulate(found: SelfTest) -> Table:
    table = Table("planted", box=None, pad_edge=False)
    for head in ("found", "95 %", "false alarms", "95 %", "named right", "95 %", "refused", "not judged"):
        table.add_column(head, justify="right", no_wrap=True)
    for kind, one in found.by_kind.items():
        cells = [cell for each in _rates_of(one) for cell in (f"{each.hits:,} of {each.of:,}", _bounds(each))]
        table.add_row(kind, *cells, f"{one.refused:,}", f"{one.unjudged:,}")
    return table


def _rates_of(one: KindRates) -> tuple[Rate, Rate, Rate]:
    return one.detection_rate, one.false_alarm_rate, one.right_cause_rate


def _bounds(one: Rate) -> str:
    return f"{text.share(one.lower)} to {text.share(one.upper)}" if one.of else "-"


def _format_rate(rate: Rate, noun: str) -> str:
    bounds = f"between {text.share(rate.lower)} and {text.share(rate.upper)} with 95 %"
    return f"{rate.hits:,} of {rate.of:,} {noun}: {bounds}"


def _word_result(found: SelfTest) -> str:
    took = f"{text.count_noun(found.trials, 'comparison')} at epoch {found.epoch}, seed {found.seed}"
    if found.passed:
        return f"{found.pipeline} passed its self-test: {took}. Next: `cutover gate {found.pipeline} show`."
    few = found.false_alarm_rate.of < CLEAN_WINDOWS and not found.failures
    if few:
        return f"Too few clean windows to pass, {CLEAN_WINDOWS:,} are needed: {took}. Next: more `--trials`."
    again = f"`cutover selftest {found.pipeline} --seed {found.seed} --trials {found.trials}`"
    failed = f"{found.pipeline} failed its self-test: {took}."
    return f"{failed} Next: trust no verdict before this is mended, then {again}."


COMMANDS = {"selftest": selftest}
