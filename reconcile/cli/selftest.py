"""`cutover selftest P`: how often the reconciler itself errs on a pipeline, found out on copies of its tables."""

import secrets
from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated

import typer
from rich.table import Table

from cutover.clock import SystemClock
from cutover.definition.loading import catalogue
from cutover.output.console import Line, Output, make_table, show_bar
from cutover.reconcile.result import text
from cutover.reconcile.result.error_rates import KindRates, list_uncounted
from cutover.reconcile.result.rates import Rate
from cutover.reconcile.selftest import record
from cutover.reconcile.selftest.outcome import CLEAN_WINDOWS, SelfTest
from cutover.reconcile.selftest.self_test import self_test
from cutover.settings import Settings, load_settings

_SHOWN = 10


def selftest(
    pipeline: Annotated[str, typer.Argument(help="Name of a pipeline.")],
    *,
    seed: Annotated[int | None, typer.Option("--seed", help="Draws defects; another each time if not given.")] = None,
    trials: Annotated[int, typer.Option("--trials", min=1, max=10_000, help="Comparisons.")] = 40,
) -> Output:
    """Plant defects in copies of both sides and compare: 0 all were found and nothing else, 1 not, 2 no comparison."""
    settings = load_settings()
    self_test = _run(settings, pipeline, secrets.randbelow(2**31) if seed is None else seed, trials)
    record.record_self_test(settings, self_test, SystemClock())
    return Output(
        document=asdict(self_test) | {"passed": self_test.passed},
        lines=_list_lines(self_test),
        exit_code=0 if self_test.passed else 1,
    )


def _run(settings: Settings, pipeline: str, seed: int, trials: int) -> SelfTest:
    definition = catalogue.get(settings, pipeline)
    with show_bar("Comparing copies with planted defects") as update:
        return self_test(settings, definition, seed=seed, trials=trials, clock=SystemClock(), progress=update)


def _list_lines(self_test: SelfTest) -> Iterator[Line]:
    yield _tabulate(self_test)
    yield f"found        {_format_rate(self_test.detection_rate, 'planted rows')}"
    yield f"false alarms {_format_rate(self_test.false_alarm_rate, 'clean windows')}"
    yield f"named right  {_format_rate(self_test.right_cause_rate, 'rows')}"
    for count, reason in list_uncounted(self_test.rates):
        yield f"not counted  {count:,} {reason}"
    for failure in self_test.failures[:_SHOWN]:
        yield f"wrong  {failure}"
    yield _word_result(self_test)


def _tabulate(self_test: SelfTest) -> Table:
    heads = ("found", "95 %", "false alarms", "95 %", "named right", "95 %", "refused", "not judged")
    return make_table(
        ("planted", *heads),
        (
            (
                kind,
                *(cell for rate in _rates_of(kind_rates) for cell in (f"{rate.hits:,} of {rate.of:,}", _bounds(rate))),
                f"{kind_rates.refused:,}",
                f"{kind_rates.not_compared:,}",
            )
            for kind, kind_rates in self_test.by_kind.items()
        ),
        right=heads,
        no_wrap=heads,
    )


def _rates_of(kind_rates: KindRates) -> tuple[Rate, Rate, Rate]:
    return kind_rates.detection_rate, kind_rates.false_alarm_rate, kind_rates.right_cause_rate


def _bounds(rate: Rate) -> str:
    return f"{text.share(rate.lower)} to {text.share(rate.upper)}" if rate.of else "-"


def _format_rate(rate: Rate, noun: str) -> str:
    bounds = f"between {text.share(rate.lower)} and {text.share(rate.upper)} with 95 %"
    return f"{rate.hits:,} of {rate.of:,} {noun}: {bounds}"


def _word_result(self_test: SelfTest) -> str:
    took = f"{text.count_noun(self_test.trials, 'comparison')} at epoch {self_test.epoch}, seed {self_test.seed}"
    if self_test.passed:
        return f"{self_test.pipeline} passed its self-test: {took}. Next: `cutover gate {self_test.pipeline} show`."
    few = self_test.false_alarm_rate.of < CLEAN_WINDOWS and not self_test.failures
    if few:
        return f"Too few clean windows to pass, {CLEAN_WINDOWS:,} are needed: {took}. Next: more `--trials`."
    repeat_command = f"`cutover selftest {self_test.pipeline} --seed {self_test.seed} --trials {self_test.trials}`"
    failed = f"{self_test.pipeline} failed its self-test: {took}."
    return f"{failed} Next: trust no verdict until this is fixed, then {repeat_command}."


COMMANDS = {"selftest": selftest}
