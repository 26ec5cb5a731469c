"""After batch was retired: a final window becomes wrong; the audit finds it, batch serves again."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from cutover.clock import SystemClock
from cutover.definition import Audit
from cutover.definition.compile.fingerprint import result_fingerprint
from cutover.definition.model.policy import Stage
from cutover.engine import queries
from cutover.lake.control import pins
from cutover.lake.control.served import current_stage, read_gate_events
from cutover.lake.serving import views
from cutover.lake.tables import delta
from cutover.lake.tables.schemas import epoch_log_schema
from cutover.pipeline_lake import BATCH_TABLES
from cutover.reconcile.audit.window_sample import audit_windows
from cutover.reconcile.gate import stage
from tests.faults.fault import Fault
from tests.faults.running.definition import EASY
from tests.faults.running.rig import Rig
from tests.support.comparison.planted import replace_rows
from tests.support.history.journal_rows import record_stage

RECORDS = 400  # about 12 windows
POLICY = replace(EASY, audit=Audit(share=0.05, within_days=1, power=0.99))
"""Requests more windows than exist, so each is drawn: detection does not depend on luck."""

CLOCK = SystemClock()
_HELD: dict[str, pa.Table] = {}  # rows as they were, by topic


def change_an_amount(rig: Rig) -> None:
    """Retire batch, audit twice: while all is well, and after an amount of a final window was changed."""
    rig.define(policy=POLICY, cap=100)
    _read(rig)
    rig.batch()
    _retire(rig)
    batch = _batch_state(rig)
    rig.note("clean", _audit(rig, seed=1))
    _read(rig)
    earlier_version = int(delta.open_table(rig.version.uri).version())
    rig.note("versions", [earlier_version, _plant(rig)])
    rig.note("planted", _audit(rig, seed=2))
    rig.note("batch tables", [batch, _batch_state(rig)])
    rig.exit_code = 1 if rig.evidence["planted"]["state"] == "regression" else 0
    rig.note("moved", stage.roll_back_regression(rig.lake, CLOCK))
    rig.note("moved twice", stage.roll_back_regression(rig.lake, CLOCK))
    rig.note("stage", str(current_stage(rig.lake)))
    rig.note("events", [row.event for row in read_gate_events(rig.settings, rig.pipeline.name)])


def _read(rig: Rig) -> None:
    rig.send(rig.draw(RECORDS, late=0.02))
    rig.close_windows()
    rig.drain()


def _retire(rig: Rig) -> None:
    record_stage(rig.lake, Stage.KAPPA)


def _audit(rig: Rig, *, seed: int) -> dict[str, object]:
    audit = audit_windows(rig.lake, seed=seed, clock=CLOCK)
    summary = {"state": str(audit.state), "windows": len(audit.windows), "rows": audit.rows, "wrong": len(audit.wrong)}
    return summary | {"unexplained": audit.unexplained, "late": audit.causes.get("late", 0)}


def _plant(rig: Rig) -> int:
    """Change one amount of a window that became final since the last audit, as a defect of the product would."""
    schema = epoch_log_schema(rig.pipeline)
    with views.open_views(rig.lake) as connection:
        query = "SELECT epoch_us(max(window_start)) FROM streaming WHERE _state = 'final'"
        (start,) = connection.execute(query).fetchall()[0]
    with queries.open_duckdb() as connection:
        delta.bind(connection, "held", delta.open_table(rig.version.uri))
        connection.execute("CREATE TEMP TABLE rows AS SELECT * FROM held WHERE _kind = 'partial'")
        _HELD[rig.topic] = queries.query_table(connection, "SELECT * FROM rows").cast(schema)
        condition = "rowid = (SELECT min(rowid) FROM rows WHERE epoch_us(window_start) = ? AND _class = 'accepted')"
        connection.execute(f"UPDATE rows SET ids = ids + 1 WHERE {condition}", [start])  # noqa: S608 -- ours
        term = queries.query_table(connection, "SELECT * FROM rows").cast(schema)
    return replace_rows(rig.version.uri, term, kind="partial")


def it_is_in_the_table(rig: Rig) -> bool:
    """One version more; the pipeline was in KAPPA; the audit before found nothing, declared late rows among it."""
    version_before, version_after = rig.evidence["versions"]
    clean = rig.evidence["clean"]
    return bool(
        version_after == version_before + 1 and clean["state"] == "agrees" and clean["late"] and rig.evidence["events"]
    )


def one_row_is_found(rig: Rig) -> Iterator[str]:
    """The row that was changed, and no other: late rows that the ledger declares are no regression."""
    audit = rig.evidence["planted"]
    if (audit["state"], audit["unexplained"], audit["wrong"]) != ("regression", 1, 1):
        yield f"the audit says {audit}"


def batch_serves_again(rig: Rig) -> Iterator[str]:
    """One move back, with the audit as its evidence."""
    evidence = rig.evidence
    if not evidence["moved"] or evidence["moved twice"] or evidence["stage"] != Stage.LAMBDA:
        yield f"moved {evidence['moved']}, again {evidence['moved twice']}, stage {evidence['stage']}"
    if evidence["events"] != ["advanced", "rolled_back"]:
        yield f"events of the gate: {evidence['events']}"


def nothing_is_published(rig: Rig) -> Iterator[str]:
    """Both audits left the batch tables, their own folder and the pins as they were."""
    state_before, state_after = rig.evidence["batch tables"]
    if state_before != state_after:
        yield f"batch tables and pins were {state_before}, are {state_after}"


def _batch_state(rig: Rig) -> list[object]:
    folder = Path(rig.lake.version_uri())
    tables = [int(delta.open_table(rig.lake.batch_uri(name)).version()) for name in BATCH_TABLES]
    holders = pins.list_all_holders(rig.settings, rig.pipeline.name, result_fingerprint(rig.pipeline), now=CLOCK.now())
    return [tables, len(holders), [audit_folder.name for audit_folder in folder.glob("audits/*")]]


def restore_rows(rig: Rig) -> None:
    """Restore the earlier rows."""
    replace_rows(rig.version.uri, _HELD.pop(rig.topic), kind="partial")


FAULTS = (
    Fault(
        id="F31",
        family="findings",
        title="difference after retirement",
        inject=change_an_amount,
        happened=it_is_in_the_table,
        heal=restore_rows,
        checks=("N1", "N3", "N4", "N5", "N6"),  # N2 sees the hand that planted it
        holds=(one_row_is_found, batch_serves_again, nothing_is_published),
        alert="RetirementRegression",
        exit_code=1,
    ),
)
