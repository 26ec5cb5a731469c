"""Property: the ledger explains every difference caused by late records, and never a single edited value."""

import tempfile
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.result.finding import Verdict
from cutover.reconcile.result.report import Report
from cutover.settings import Settings
from tests.integration.reconcile.lake_of import PIPELINE, Lake, Raw, Sale, edit_batch_row, lake_of, reconcile, write

pytestmark = pytest.mark.usefixtures("comparisons_twice")

EXAMPLES = settings(max_examples=8, deadline=None, derandomize=True, database=None, phases=(Phase.generate,))
HOUR = timedelta(hours=1)

accepted = st.builds(
    Sale,
    epoch=st.integers(0, 3),
    hour=st.integers(0, 4),
    shop=st.sampled_from(("a", "b", "", None)),
    desk=st.sampled_from((0, 1, None)),
    amount=st.integers(-1000, 1000),
)
late = st.builds(
    Sale,
    epoch=st.integers(1, 3),
    hour=st.integers(0, 4),
    shop=st.sampled_from(("a", "c", None)),
    desk=st.sampled_from((1, None)),
    amount=st.integers(-5000, 5000),
    kind=st.just("late"),
)
EDITS: tuple[Callable[[Raw], Raw | None], ...] = (
    lambda _: None,
    lambda row: row | {"revenue": row["revenue"] + 1},
    lambda row: row | {"sales": row["sales"] + 1},
    lambda row: row | {"least": row["least"] - 1},
    lambda row: row | {"most": None},
    lambda row: row | {"mean": row["mean"] + 0.001},
    lambda row: row | {"mean__sum": row["mean__sum"] - Decimal(1)},
    lambda row: row | {"_n": row["_n"] + 1},
    lambda row: row | {"shop": "somewhere else"},
    lambda row: row | {"window_start": row["window_start"] + 7 * HOUR, "window_end": row["window_end"] + 7 * HOUR},
)


def write_and_compare(lake: Lake) -> Report:
    with tempfile.TemporaryDirectory() as home:
        fresh = Settings(home=Path(home))
        write(fresh, lake)
        return reconcile(PipelineLake(fresh, PIPELINE))


def adds_up(result: Report) -> bool:
    """Return whether the steps of each waterfall lead from the batch's total to the stream's."""
    falls = [(f.batch, [step.amount for step in f.steps], f.streaming) for f in result.finding.waterfall]
    return all(int(batch or 0) + sum(int(a or 0) for a in steps) == int(end or 0) for batch, steps, end in falls)


@EXAMPLES
@given(accepted_sales=st.lists(accepted, min_size=1, max_size=25), missed=st.lists(late, min_size=1, max_size=8))
def test_the_ledger_explains_every_difference(accepted_sales: list[Sale], missed: list[Sale]) -> None:
    result = write_and_compare(lake_of([*accepted_sales, *missed]))

    outcome = (result.finding.verdict, result.finding.causes["unexplained"].rows, result.finding.causes["late"].events)
    assert outcome == (Verdict.EXPLAINED, 0, len(missed))
    assert adds_up(result)


@EXAMPLES
@given(
    accepted_sales=st.lists(accepted, min_size=1, max_size=25),
    missed=st.lists(late, max_size=8),
    edit=st.sampled_from(EDITS),
    place=st.integers(0, 1_000),
)
def test_an_edit_of_the_batch_is_never_explained(
    accepted_sales: list[Sale], missed: list[Sale], edit: Callable[[Raw], Raw | None], place: int
) -> None:
    lake = lake_of([*accepted_sales, *missed])

    result = write_and_compare(edit_batch_row(lake, place % len(lake.batch), edit))

    assert (result.finding.verdict, result.finding.causes["unexplained"].rows > 0) == (Verdict.DIVERGED, True)
    assert adds_up(result)
