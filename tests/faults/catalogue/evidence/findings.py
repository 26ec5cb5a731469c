"""Edits of a table are found, each by window, key and kind; hostile values stay text in every output."""

# ruff: noqa: S608 -- the constants of this module

import shutil
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

from cutover.clock import SystemClock
from cutover.definition import Pipeline
from cutover.definition.model.policy import Stage
from cutover.engine import queries
from cutover.lake.tables import delta
from cutover.lake.tables.schemas import epoch_log_schema
from cutover.reconcile.gate import evidence as evidence_of
from cutover.reconcile.gate.decide import decide
from cutover.reconcile.result.finding import Verdict
from cutover.reconcile.result.report import Report
from cutover.settings import Settings
from tests.faults.fault import Fault, Part
from tests.faults.running.rig import Rig
from tests.integration.reconcile.lake_of import PIPELINE, START, Lake, Raw, Sale, lake_of, write
from tests.support.comparison.planted import replace_rows

WINDOWS, SHOPS, DESKS = 50, 20, 100
ROWS = WINDOWS * SHOPS * DESKS
CLEAN_RUNS = 20
LAKE_ALONE = frozenset({Part.LAKE})
OLD_BATCH = {"batch_schedules": 1e9}  # its run is dated by the table's own clock
Finding = tuple[int, str, int, str]  # hour of the window, shop, desk, kind

DELETED, DOUBLED, DEARER, MOVED = (3, "s1", 5), (7, "s2", 9), (11, "s3", 0), (20, "moved", 1)
SWAPPED = ((30, "s4", 1), (30, "s4", 2))
PLANTED: frozenset[Finding] = frozenset(
    {
        (*DELETED, "missing"),
        (*DOUBLED, "changed"),
        (*DEARER, "changed"),
        (*MOVED, "missing"),
        (MOVED[0] + 1, *MOVED[1:], "extra"),
        *((*place, "changed") for place in SWAPPED),
    }
)


def sales() -> Pipeline:
    """Return the definition of the table."""
    return PIPELINE


@cache
def _large(home: Path) -> Path:
    """Return an installation whose stream table has 100,000 rows and whose batch agrees; made once a session."""
    template = lake_of([Sale()])
    partials = [_row(template.partials[0], hour, f"s{n % SHOPS}", n // SHOPS, n) for hour in range(WINDOWS) for n in _N]
    partials.append(_row(template.partials[0], *MOVED, 7))
    batch = tuple(template.batch[0] | _batch_row(row) for row in partials)
    record = replace(
        template.epochs[0], end={0: len(partials)}, records=len(partials), counts={"accepted": len(partials)}
    )
    run = replace(template.run, cut=dict(record.end), scanned={0: (0, len(partials))})
    lake = Lake(partials=tuple(partials), epochs=(record,), batch=batch, run=run, transaction=0)
    write(Settings(home=home), lake)
    return home


_N = range(SHOPS * DESKS)


def _row(template: Raw, hour: int, shop: str, desk: int, amount: int) -> Raw:
    at = START + timedelta(hours=hour)
    sums = {"revenue": Decimal(amount), "mean__sum": Decimal(amount), "least": amount, "most": amount}
    return template | sums | {"window_start": at, "window_end": at + timedelta(hours=1), "shop": shop, "desk": desk}


def _batch_row(row: Raw) -> Raw:
    columns = ("window_start", "window_end", "shop", "desk", "sales", "revenue", "least", "most", "mean__sum", "_n")
    return {name: row[name] for name in columns} | {"mean": float(row["revenue"])}


def _copy_large_table(rig: Rig) -> None:
    """Give the rig a copy of the large table."""
    rig.make = sales
    path = _large(rig.settings.home.parent / "large-table")
    shutil.copytree(path, rig.settings.home, dirs_exist_ok=True)


def plant(rig: Rig) -> None:
    """Edit five things of the stream table by hand, and compare."""
    _copy_large_table(rig)
    handle = delta.open_table(rig.version.uri)
    rig.note("version before", int(handle.version()))
    rig.note("edits", _edit(rig))
    rig.note("version after", int(delta.open_table(rig.version.uri).version()))
    report = rig.reconcile()
    rig.exit_code = report.finding.exit_code
    rig.note("findings", sorted(map(str, _findings(report))))
    evidence = evidence_of.read_evidence(rig.lake, SystemClock().now())
    decision = decide(Stage.LAMBDA, evidence, "advance", rig.pipeline.policy, SystemClock().now())
    rig.note("gate", [bool(decision.allowed), *decision.missing])


def _edit(rig: Rig) -> int:
    """Rewrite the partials with the edits, in one commit; return the number of rows that no longer exist unchanged."""
    handle = delta.open_table(rig.version.uri)
    schema = epoch_log_schema(rig.pipeline)
    with queries.open_duckdb() as connection:
        delta.bind(connection, "held", handle)
        connection.execute("CREATE TEMP TABLE before AS SELECT * FROM held WHERE _kind = 'partial'")
        place = f"(datediff('hour', TIMESTAMPTZ '{START.isoformat()}', window_start), shop, desk)"
        one_key, other_key = SWAPPED
        later = "window_start = window_start + INTERVAL 1 HOUR, window_end = window_end + INTERVAL 1 HOUR"
        edits = (
            f"DELETE FROM rows WHERE {place} = {DELETED}",
            f"INSERT INTO rows SELECT * FROM rows WHERE {place} = {DOUBLED}",
            f"UPDATE rows SET revenue = revenue + 1 WHERE {place} = {DEARER}",
            f"UPDATE rows SET {later} WHERE {place} = {MOVED}",
            f"UPDATE rows SET desk = {one_key[2] + other_key[2]} - desk WHERE {place} IN ({one_key}, {other_key})",
        )
        connection.execute("CREATE TEMP TABLE rows AS SELECT * FROM before")
        for edit in edits:
            connection.execute(edit)
        term = queries.query_table(connection, "SELECT * FROM rows").cast(schema)
        counting = "SELECT count(*) FROM (SELECT * FROM before EXCEPT SELECT * FROM rows)"
        changed_count = connection.execute(counting).fetchone()
    replace_rows(rig.version.uri, term, kind="partial")
    assert changed_count is not None
    changed_rows: int = changed_count[0]
    return changed_rows


def edits_are_in_the_table(rig: Rig) -> bool:
    """One version more; five rows are no longer as they were: one deleted, one dearer, one moved, two swapped."""
    evidence = rig.evidence
    return bool(evidence["version after"] == evidence["version before"] + 1 and evidence["edits"] == 1 + 1 + 1 + 2)


def _findings(result: Report) -> set[Finding]:
    return {_finding(d.window_start or "", d.key, d.kind) for d in result.finding.differences}


def _finding(window: str, key: Any, kind: str) -> Finding:
    hour = round((datetime.fromisoformat(window) - START).total_seconds() / 3600)
    return (hour, str(key["shop"]), int(key["desk"]), kind)


def exactly_these_findings(rig: Rig) -> Iterator[str]:
    """Each by window, key and kind."""
    findings, planted = set(rig.evidence["findings"]), set(map(str, PLANTED))
    for finding in sorted(planted - findings):
        yield f"not found: {finding}"
    for finding in sorted(findings - planted):
        yield f"never planted: {finding}"


def gate_is_blocked(rig: Rig) -> Iterator[str]:
    """The newest run has a difference that nothing explains."""
    allowed, *missing = rig.evidence["gate"]
    if allowed or not any(text.startswith("newest run") for text in missing):
        yield f"the gate says {allowed}: {missing}"


def restore_table(rig: Rig) -> None:
    """Undo the edits, in a separate version; an older copy of the folder would be a broken history."""
    delta.open_table(rig.version.uri).restore(rig.evidence["version before"])


def compare(rig: Rig) -> None:
    """Compare once more."""
    rig.reconcile()


def compare_often(rig: Rig) -> None:
    """Compare the unedited table again and again."""
    _copy_large_table(rig)
    rig.note("runs", [rig.reconcile().finding.verdict.value for _ in range(CLEAN_RUNS)])
    rig.note("found", sum(len(result.finding.differences) for result in rig.reconciliations))


def it_ran_as_often(rig: Rig) -> bool:
    """Twenty runs over all rows."""
    return (
        all(result.finding.rows.compared == ROWS + 1 for result in rig.reconciliations)
        and len(rig.reconciliations) == CLEAN_RUNS
    )


def no_false_alarm(rig: Rig) -> Iterator[str]:
    """Nothing was found where nothing was planted."""
    if set(rig.evidence["runs"]) != {Verdict.CONSISTENT.value} or rig.evidence["found"]:
        yield f"{rig.evidence['found']} findings, verdicts {rig.evidence['runs']}"


def nothing(_: Rig) -> None:
    """Settle nothing: this is about what was written."""


FAULTS = (
    Fault(
        id="F28",
        variant="planted",
        family="findings",
        title="planted differences",
        inject=plant,
        happened=edits_are_in_the_table,
        needs=LAKE_ALONE,
        limits=OLD_BATCH,
        heal=restore_table,
        settle=compare,
        checks=(),
        holds=(exactly_these_findings, gate_is_blocked),
        alert="DivergenceUnexplained",
        exit_code=1,
    ),
    Fault(
        id="F28",
        variant="clean",
        family="findings",
        title="planted differences",
        inject=compare_often,
        happened=it_ran_as_often,
        needs=LAKE_ALONE,
        limits=OLD_BATCH,
        settle=nothing,
        checks=(),
        holds=(no_false_alarm,),
    ),
)
