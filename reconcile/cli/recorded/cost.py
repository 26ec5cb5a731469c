"""`cutover cost P`: what both paths have used, how long records waited, and what each nine of agreement buys."""

from collections.abc import Iterator
from typing import Annotated

import typer
from rich.table import Table

from cutover.cli.definitions import load_command_definition
from cutover.output.console import Line, Output, make_table
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.cost.measure import find_agreement, measure_costs
from cutover.reconcile.result.codec import encode_tree
from cutover.reconcile.result.cost import (
    Delay,
    PathCosts,
    PathTotal,
    amount_text,
    describe_costs,
    describe_nine,
    describe_waiting_basis,
    size_text,
)
from cutover.reconcile.result.text import duration
from cutover.settings import load_settings

_FIGURES = (
    "records",
    "core-seconds",
    "core-seconds a million records",
    "read",
    "written",
    "half of the records waited at most",
    "99 % of them",
)


def cost(
    pipeline: Annotated[str, typer.Argument(help="Name of a pipeline.")],
) -> Output:
    """Say what streaming and batch have cost: 0 shown, 2 nothing is known yet. Reads only."""
    settings = load_settings()
    definition = load_command_definition(settings, pipeline)
    lake = PipelineLake(settings, definition)
    path_costs = measure_costs(lake, find_agreement(lake))
    return Output(document=encode_tree(path_costs), lines=_list_lines(pipeline, path_costs))


def _list_lines(name: str, path_costs: PathCosts) -> Iterator[Line]:
    yield path_table(path_costs)
    if path_costs.days:
        yield _day_table(path_costs)
    if path_costs.nines:
        yield nine_table(path_costs)
        yield describe_waiting_basis(path_costs)
    yield from path_costs.notes
    yield describe_costs(name, path_costs)


def path_table(path_costs: PathCosts) -> Table:
    """Return what each path has used and how long records waited for it, side by side."""
    pairs = zip(
        _describe_rows(path_costs.streaming, path_costs.streaming_delay),
        _describe_rows(path_costs.batch, path_costs.batch_delay),
        strict=True,
    )
    return make_table(("", "streaming", "batch"), ((name, streaming, batch) for (name, streaming), (_, batch) in pairs))


def _describe_rows(total: PathTotal, delay: Delay) -> list[tuple[str, str]]:
    if not total.runs:  # of a path that never ran nothing is unknown
        return [("runs", "0"), *((name, "no run") for name in _FIGURES)]
    runs = f"{total.runs:,}" + (f" ({total.unknown_runs:,} unknown)" if total.unknown_runs else "")
    half, longest = (("unknown" if value is None else duration(value)) for value in (delay.p50, delay.p99))
    figures = (
        f"{total.records:,}",
        amount_text(total.core_seconds),
        amount_text(total.core_seconds_per_million),
        size_text(total.read_bytes),
        size_text(total.written_bytes),
        half,
        longest,
    )
    return [("runs", runs), *zip(_FIGURES, figures, strict=True)]


def _day_table(path_costs: PathCosts) -> Table:
    heads = ("day (UTC)", "stream records", "core-s", "written", "batch records", "core-s", "written")
    return make_table(heads, ((day.day, *_day_cells(day.streaming), *_day_cells(day.batch)) for day in path_costs.days))


def _day_cells(total: PathTotal) -> tuple[str, str, str]:
    if not total.runs:
        return "0", "no run", "no run"
    return f"{total.records:,}", amount_text(total.core_seconds), size_text(total.written_bytes)


def nine_table(path_costs: PathCosts) -> Table:
    """Return for each nine of agreement who holds it, and what it costs."""
    columns = ("rows agree", "may differ", "held by", "core-s a row", "or by waiting")
    return make_table(columns, map(describe_nine, path_costs.nines))


COMMANDS = {"cost": cost}
