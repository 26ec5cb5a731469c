"""Numbers that no type holds, and windows that are not compared: both are reported, neither is a verdict on data."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from cutover.errors import LakeError
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.attribution.explain import explain_cell
from cutover.reconcile.result.finding import Verdict
from cutover.settings import Settings
from tests.integration.reconcile.lake_of import (
    PIPELINE,
    START,
    Lake,
    Sale,
    edit_batch_row,
    lake_of,
    micros,
    reconcile,
    write,
)

HUGE = Decimal("9" * 38)
SALES = (Sale(hour=3, shop="a"), Sale(epoch=1, hour=3, shop="a"), Sale(epoch=1, hour=4, shop="b"))


def with_huge(lake: Lake, *shops: str) -> Lake:
    """Return the lake whose partial rows of some shops hold the largest number there is."""
    partials = tuple(row | {"revenue": HUGE} if row["shop"] in shops else row for row in lake.partials)
    return replace(lake, partials=partials)


@pytest.mark.quick
def test_total_beyond_its_type_is_named_by_window_and_key(settings: Settings) -> None:
    write(settings, with_huge(lake_of(SALES), "a"))

    lake = PipelineLake(settings, PIPELINE)
    result = reconcile(lake)

    assert (result.finding.verdict, result.finding.exit_code, result.finding.runbook) == (
        Verdict.NOT_COMPARABLE,
        2,
        "TableUnreadable",
    )
    for part in ("window 2026-01-01T03:00:00+00:00, shop 'a', desk 1", "`revenue`", "decimal(38,0)", "2e+38"):
        assert part in result.finding.sentence
    with pytest.raises(LakeError, match="shop 'a'"):
        explain_cell(lake, START + timedelta(hours=3), ["a", "1"])


@pytest.mark.quick
def test_totals_over_keys_beyond_every_type_are_no_verdict(settings: Settings) -> None:
    sales = tuple(Sale(hour=3, shop=shop) for shop in "abcd")
    write(settings, with_huge(lake_of(sales), "a", "b", "c", "d"))

    result = reconcile(PipelineLake(settings, PIPELINE))

    assert (result.finding.verdict, result.finding.runbook) == (Verdict.NOT_COMPARABLE, "TableUnreadable")
    assert "totals fit into 38 digits" in result.finding.sentence


@pytest.mark.parametrize("state", ["open", "incomplete(stale)"])
def test_difference_in_a_window_that_is_not_judged_says_so(settings: Settings, state: str) -> None:
    hour = 99 if state == "open" else 3
    unedited = lake_of([*SALES, Sale(hour=hour, shop="c")])
    place = next(i for i, row in enumerate(unedited.batch) if row["shop"] == "c")
    lake = edit_batch_row(unedited, place, lambda row: row | {"sales": 7})
    stale = () if state == "open" else ((micros(hour), micros(hour + 1)),)
    write(settings, replace(lake, run=replace(lake.run, stale=stale)))
    at = lake.batch[place]["window_start"]

    explanation = explain_cell(PipelineLake(settings, PIPELINE), at, ["c", "1"])

    causes = {value.measure: value.cause for value in explanation.values}
    assert (explanation.state, causes["sales"], causes["revenue"]) == (state, f"not compared: {state}", None)
