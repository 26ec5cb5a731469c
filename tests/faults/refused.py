"""Checks that faults of the input share: which records were refused, on both paths, and that only they were."""

from collections.abc import Callable, Iterator

from cutover.lake.serving import views
from cutover.records.classes import Class
from tests.faults.fault import Hold
from tests.faults.running.rig import Rig

Position = tuple[int, int]


def positions(rig: Rig, view: str, kind: str) -> set[Position]:
    """Return partition and offset of the records of a class in `ledger` or `batch_ledger`."""
    query = f"SELECT DISTINCT _partition, _offset FROM {view} WHERE _class = ?"  # noqa: S608 -- an internal name
    rows = views.open_views(rig.lake).execute(query, [kind]).fetchall()
    return {(int(row[0]), int(row[1])) for row in rows}


def positions_intended_as(rig: Rig, kind: str) -> set[Position]:
    """Return partition and offset of the records that the oracle meant to be of a class."""
    oracle_records = rig.oracle.records
    return {
        (s.partition, s.offset)
        for s in oracle_records
        if s.intended == kind and s.offset is not None and s.outcome == "acked"
    }


def refuses_alike(kind: Class) -> Hold:
    """Return the check that both paths refuse exactly the records that were meant so."""

    def both_paths_refuse_the_same_records(rig: Rig) -> Iterator[str]:
        intended = positions_intended_as(rig, kind)
        if not intended:
            yield f"no record was meant to be {kind}"
        for view in ("ledger", "batch_ledger"):
            classified = positions(rig, view, kind)
            if classified != intended:
                missing, extra = sorted(intended - classified)[:5], sorted(classified - intended)[:5]
                yield f"{view}: of {len(intended)} records {kind}, missing {missing}, too many {extra}"

    return both_paths_refuse_the_same_records


def count_of(rig: Rig, kind: Class) -> int:
    """Return the (record, window) pairs of a class over all epochs."""
    return sum(record.counts.get(kind, 0) for record in rig.records())


def no_record_is_late(rig: Rig) -> Iterator[str]:
    """The fault adds no late row: there are none."""
    late = count_of(rig, Class.LATE)
    if late:
        yield f"{late} rows are late"


def every_difference_is_late(rig: Rig) -> Iterator[str]:
    """The reconciler names no other cause."""
    report = rig.reconciliations[-1]
    causes = {name: cause.rows for name, cause in report.finding.causes.items() if cause.rows}
    if set(causes) != {"late"} or report.finding.policy.unexplained:
        yield f"expected the cause late alone, got {causes}, unexplained {report.finding.policy.unexplained}"


def text_of(rig: Rig, name: str) -> str:
    """Wait until an alert fires and return what it says."""

    def read_text() -> str:
        rig.alerts()
        return next((alert.text for alert in rig.firing if alert.name == name), "")

    return str(rig.until(read_text, 60.0))


def says(words: Callable[[Rig], list[str]]) -> Hold:
    """Return the check that the text kept as evidence `text` holds some words."""

    def the_alert_says_where(rig: Rig) -> Iterator[str]:
        text = str(rig.evidence["text"])
        yield from (f"expected `{word}` in: {text}" for word in words(rig) if word not in text)

    return the_alert_says_where
