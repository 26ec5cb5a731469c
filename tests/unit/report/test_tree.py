"""The tree of differences: windows, their keys, the cells of each and the records behind it."""

from hypothesis import given, settings
from hypothesis import strategies as st

from cutover.reconcile.report import steps
from cutover.reconcile.result.finding import Difference
from cutover.reconcile.result.parts import RecordBehind
from cutover.reconcile.result.report import Report
from tests.support.history.reconciliations import flights
from tests.support.history.reports import change_report

BASE = flights()
TEXTS = st.none() | st.sampled_from(["a", "b", "null", ""])


def cell(window: str | None, shop: str | None, measure: str = "m", cause: str = "late") -> Difference:
    return Difference(
        window_start=window,
        key={"shop": shop},
        measure=measure,
        kind="changed",
        streaming=1,
        batch=2,
        difference=-1,
        cause=cause,
    )


def record(window: str, shop: str | None, offset: int) -> RecordBehind:
    return RecordBehind(
        window_start=window,
        key={"shop": shop},
        cause="late",
        partition=0,
        offset=offset,
        event_time=None,
        epoch=1,
        reason=None,
    )


def made(cells: list[Difference], records: list[RecordBehind] | None = None) -> Report:
    return change_report(BASE, differences=tuple(cells), behind=tuple(records or ()))


@settings(deadline=None)
@given(places=st.lists(st.tuples(st.sampled_from(["w1", "w2", "w3"]), TEXTS, st.sampled_from(["m", "n"])), unique=True))
def test_every_cell_occurs_once_below_its_window_and_key(places: list[tuple[str, str | None, str]]) -> None:
    grown = steps.build(made([cell(*place) for place in places]))

    hung = [(w.window_start, k.key["shop"], c.measure) for w in grown for k in w.keys for c in k.cells]
    assert sorted(hung, key=repr) == sorted(places, key=repr)
    assert len({w.window_start for w in grown}) == len(grown)


def test_records_are_below_their_row_and_null_is_not_the_text() -> None:
    cells = [cell("w", None), cell("w", "null"), cell("v", None)]
    grown = steps.build(made(cells, [record("w", None, 7), record("w", "null", 9), record("w", None, 8)]))

    assert [[r.offset for r in k.records] for w in grown for k in w.keys] == [[7, 8], [9], []]


def test_causes_of_a_window_occur_once_in_row_order() -> None:
    grown = steps.build(made([cell("w", "a", cause="unexplained"), cell("w", "b"), cell("w", "c")]))

    assert [w.causes for w in grown] == [["unexplained", "late"]]


def test_cell_without_a_window_has_no_place() -> None:
    assert steps.build(made([cell(None, "a")])) == []
