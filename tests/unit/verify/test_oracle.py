"""Producer's oracle: records that round-trip, and the ids that a cell may contain."""

from dataclasses import replace
from pathlib import Path

import pytest

from cutover.records.classes import Class
from cutover.records.reference import UncountedPair
from tests.support.oracle.completeness import CountedRow, HeldRows, check, may_be, sum_ids
from tests.support.oracle.records import Oracle, OracleRecord, append
from tests.unit.verify.facts_of import facts

CELL = (0, ("a",))


def sent(id_: int, **changes: object) -> OracleRecord:
    values: dict[str, object] = {
        "id": id_,
        "outcome": "acked",
        "topic_id": "topic-1",
        "partition": 0,
        "offset": id_,
        "intended": "accepted",
        "window_start": 0,
        "key": ("a",),
    }
    return OracleRecord(**{**values, **changes})  # type: ignore[arg-type]  # changes are named by the tests


def test_written_records_round_trip(tmp_path: Path) -> None:
    append(tmp_path / "o", [sent(1), sent(2, key=(None, 3))])
    append(tmp_path / "o", [sent(3, offset=None, outcome="unknown")])

    assert Oracle.read(tmp_path / "o").records == (
        sent(1),
        sent(2, key=(None, 3)),
        sent(3, offset=None, outcome="unknown"),
    )


def test_the_last_line_of_an_id_counts_and_half_a_line_does_not(tmp_path: Path) -> None:
    append(tmp_path / "o", [sent(1, outcome="unknown", offset=None), sent(1)])
    with (tmp_path / "o").open("a", encoding="utf-8") as file:
        file.write('{"id": 2, "outco')

    assert Oracle.read(tmp_path / "o").records == (sent(1),)
    assert Oracle.read(tmp_path / "none").records == ()


@pytest.mark.parametrize(
    ("remaining", "unknown", "expected"),
    [
        (sum_ids([]), [], True),
        (sum_ids([]), [7, 8], True),
        (sum_ids([8]), [7, 8], True),
        (sum_ids([7, 8]), [7, 8], True),
        (sum_ids([7, 7]), [7, 8], False),
        (sum_ids([9]), [7, 8], False),
        (sum_ids([7]), [], False),
        (CountedRow(n=-1, ids=-7, squares=-49), [7], False),
        (CountedRow(n=0, ids=1, squares=1), [7], False),
    ],
)
def test_unknown_records_count_once_or_not_at_all(remaining: CountedRow, unknown: list[int], *, expected: bool) -> None:
    assert may_be(remaining, unknown) is expected


def judged(
    *records: OracleRecord, cell: CountedRow | None, ledger: frozenset[UncountedPair] = frozenset()
) -> list[str]:
    held_rows = HeldRows(cells={} if cell is None else {CELL: cell}, ledger=ledger)
    return list(check(facts(), held_rows, Oracle(records=records)))


def test_exactly_the_acknowledged_ids_hold() -> None:
    assert judged(sent(1), sent(2), cell=sum_ids([1, 2])) == []


@pytest.mark.parametrize("cell", [sum_ids([1]), sum_ids([1, 2, 2]), sum_ids([1, 3]), sum_ids([1, 2, 3]), None])
def test_a_cell_with_other_ids_is_named(cell: CountedRow | None) -> None:
    violations = judged(sent(1), sent(2), cell=cell)

    assert [text.split(":")[0] for text in violations] == ["Window 0, key ('a',)"]


@pytest.mark.parametrize(
    "never",
    [sent(2, outcome="failed"), sent(2, outcome="aborted"), sent(2, topic_id="topic-2"), sent(2, offset=15)],
)
def test_a_record_that_must_not_count_is_named_if_it_does(never: OracleRecord) -> None:
    assert judged(sent(1), never, cell=sum_ids([1])) == []
    assert judged(sent(1), never, cell=sum_ids([1, 2])) != []


def entry(**changes: object) -> UncountedPair:
    row = UncountedPair(cls=Class.MALFORMED, partition=0, offset=3, window_start=None, event_time=None, reason=None)
    return replace(row, **changes)  # type: ignore[arg-type]  # changes are named by the tests


def test_exactly_the_malformed_records_are_in_the_ledger() -> None:
    poison = sent(3, intended="malformed", window_start=None, key=())

    assert judged(poison, cell=None, ledger=frozenset({entry()})) == []
    assert judged(poison, cell=None) == ["Ledger, malformed: 1 positions missing, the first is (0, 3)."]
    assert judged(cell=None, ledger=frozenset({entry()})) != []


def test_a_late_record_must_have_been_sent_as_valid() -> None:
    late = frozenset({entry(cls=Class.LATE, window_start=0)})

    assert judged(sent(3), cell=sum_ids([3]), ledger=late) == []
    assert judged(sent(4), cell=sum_ids([4]), ledger=late) == [
        "Ledger, late: 1 positions were not sent to count, the first is (0, 3)."
    ]
