"""Differences planted in the stream's table or in the batch are found, exactly these, with window, key and kind."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.result.finding import Verdict
from cutover.reconcile.result.report import Report
from cutover.settings import Settings
from tests.integration.reconcile.lake_of import (
    PIPELINE,
    START,
    Lake,
    Raw,
    Sale,
    edit_batch_row,
    lake_of,
    reconcile,
    write,
)

pytestmark = pytest.mark.usefixtures("comparisons_twice")

HOUR = timedelta(hours=1)
SALES = (
    *(Sale(hour=h, shop="a", desk=1, amount=10 + h) for h in range(6)),
    *(Sale(epoch=1, hour=h, shop="b", desk=None, amount=20 + h) for h in range(6)),
    *(Sale(epoch=1, hour=h, shop=None, desk=None, amount=30 + h) for h in range(6)),
    Sale(epoch=1, hour=5, shop="a", desk=1, amount=3, kind="late"),
)
Finding = tuple[int, str | None, str]  # hour, shop, kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Plant:
    """An edit of the accepted partials of one hour, and what must be found."""

    id: str
    edit: Callable[[list[Raw]], list[Raw]]
    findings: frozenset[Finding]


def _only(rows: list[Raw], hour: int, shop: str | None, change: Callable[[Raw], list[Raw]]) -> list[Raw]:
    is_meant = [
        (row["window_start"], row["shop"], row["_class"]) == (START + hour * HOUR, shop, "accepted") for row in rows
    ]
    return [
        new
        for row, is_row_meant in zip(rows, is_meant, strict=True)
        for new in (change(row) if is_row_meant else [row])
    ]


def _plus_one(row: Raw) -> list[Raw]:
    return [row | {"revenue": row["revenue"] + 1}]


def _next_window(row: Raw) -> list[Raw]:
    return [row | {"window_start": row["window_start"] + HOUR, "window_end": row["window_end"] + HOUR, "desk": 9}]


def _swap_shops(rows: list[Raw]) -> list[Raw]:
    half_swapped = _only(rows, 2, "a", lambda row: [row | {"shop": "b", "desk": None, "_epoch": 7}])
    second = _only(half_swapped, 2, "b", lambda row: [row | {"shop": "a", "desk": 1} if row["_epoch"] != 7 else row])
    return [row | {"_epoch": 0} if row["_epoch"] == 7 else row for row in second]


PLANTS = (
    Plant(id="deleted", edit=lambda r: _only(r, 0, "a", lambda _: []), findings=frozenset({(0, "a", "missing")})),
    Plant(id="doubled", edit=lambda r: _only(r, 1, "b", lambda x: [x, x]), findings=frozenset({(1, "b", "changed")})),
    Plant(id="amount + 1", edit=lambda r: _only(r, 3, "a", _plus_one), findings=frozenset({(3, "a", "changed")})),
    Plant(
        id="moved to the next window",
        edit=lambda r: _only(r, 3, "b", _next_window),
        findings=frozenset({(3, "b", "missing"), (4, "b", "extra")}),
    ),
    Plant(id="swapped keys", edit=_swap_shops, findings=frozenset({(2, "a", "changed"), (2, "b", "changed")})),
    Plant(id="of a null key", edit=lambda r: _only(r, 4, None, _plus_one), findings=frozenset({(4, None, "changed")})),
    Plant(
        id="null key deleted",
        edit=lambda r: _only(r, 4, None, lambda _: []),
        findings=frozenset({(4, None, "missing")}),
    ),
)


def list_unexplained(result: Report) -> frozenset[Finding]:
    cells = [cell for cell in result.finding.differences if cell.cause == "unexplained"]
    return frozenset((int(str(c.window_start)[11:13]), _text(c.key["shop"]), c.kind) for c in cells)


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def plant_and_compare(settings: Settings, edit: Callable[[list[Raw]], list[Raw]]) -> Report:
    lake: Lake = lake_of(SALES)
    write(settings, replace(lake, partials=tuple(edit(list(lake.partials)))))
    return reconcile(PipelineLake(settings, PIPELINE))


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.id)
def test_a_planted_difference_is_found(settings: Settings, plant: Plant) -> None:
    assert list_unexplained(plant_and_compare(settings, plant.edit)) == plant.findings


def test_all_planted_differences_are_found_at_once(settings: Settings) -> None:
    def apply_all(rows: list[Raw]) -> list[Raw]:
        for plant in PLANTS[:5]:
            rows = plant.edit(rows)
        return rows

    result = plant_and_compare(settings, apply_all)

    expected = frozenset().union(*(plant.findings for plant in PLANTS[:5]))
    assert (result.finding.verdict, result.finding.causes["unexplained"].rows, list_unexplained(result)) == (
        Verdict.DIVERGED,
        len(expected),
        expected,
    )


def test_what_is_late_keeps_its_name_beside_planted_differences(settings: Settings) -> None:
    result = plant_and_compare(settings, PLANTS[0].edit)

    assert (result.finding.causes["late"].rows, result.finding.causes["late"].events) == (1, 1)


def test_a_doubled_row_of_the_batch_is_found(settings: Settings) -> None:
    lake = lake_of(SALES)
    write(settings, replace(lake, batch=(*lake.batch, lake.batch[0])))

    result = reconcile(PipelineLake(settings, PIPELINE))

    assert (result.finding.verdict, list_unexplained(result), result.finding.rows.missing) == (
        Verdict.DIVERGED,
        frozenset({(0, "a", "missing")}),
        1,
    )


def test_a_doubled_pair_of_rows_does_not_cancel_out(settings: Settings) -> None:
    lake = lake_of(SALES)
    write(settings, replace(lake, batch=(*lake.batch, lake.batch[0], lake.batch[0])))

    result = reconcile(PipelineLake(settings, PIPELINE))

    assert result.finding.rows.missing == 2


@pytest.mark.parametrize("minutes", [-1, 1])
def test_a_wrong_end_of_a_window_of_the_batch_is_found(settings: Settings, minutes: int) -> None:
    write(settings, edit_batch_row(lake_of(SALES), 0, partial(_longer, minutes=minutes)))

    result = reconcile(PipelineLake(settings, PIPELINE))

    assert result.finding.verdict is Verdict.DIVERGED
    assert {cell.measure for cell in result.finding.differences if cell.cause == "unexplained"} == {"window_end"}


@pytest.mark.parametrize("minutes", [-1, 1])
def test_a_wrong_end_of_a_window_of_the_stream_is_found(settings: Settings, minutes: int) -> None:
    def edit(rows: list[Raw]) -> list[Raw]:
        return _only(rows, 2, "a", lambda row: [_longer(row, minutes=minutes)])

    result = plant_and_compare(settings, edit)

    assert result.finding.verdict is Verdict.DIVERGED
    assert "window_end" in {cell.measure for cell in result.finding.differences if cell.cause == "unexplained"}


def _longer(row: Raw, *, minutes: int) -> Raw:
    return row | {"window_end": row["window_end"] + timedelta(minutes=minutes)}
