"""After batch was retired: a final window becomes wrong; the audit finds it, batch serves again."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from cutover.clock import SystemClock
from cutover.definition import Audit
from cutover.definition.compile.fingerprint import result_fingerprint
from cutover.engine import queries
from cutover.lake.control import pins
from cutover.lake.control.stages import Stage, current_stage, read_events
from cutover.lake.paths import BATCH_TABLES, batch_uri, version_uri
from cutover.lake.serving import views
from cutover.lake.tables import delta
from cutover.lake.tables.schemas import epoch_log_schema
from cutover.reconcile.gate import stage
from cutover.reconcile.window_audit.audit_sample import audit_windows
from tests.faults.fault import Fault
from tests.faults.running.definition import EASY
from tests.faults.running.rig import Rig
from tests.support.comparison.planted import replace_rows
from tests.support.history.journal_rows import record_stage

RECORDS = 400  # about 12 windows
POLICY = replace(EASY, audit=Audit(share=0.05, within_days=1, power=0.99))
"""Asks for more windows than there are, so each is drawn: whether this fault is found is no matter of luck."""

CLOCK = SystemClock()
_HELD: dict[str, pa.Table] = {}  # rows as they were, by topic


def change_an_amount(rig: Rig) -> None:
    """Retire batch, audit twice: while all is well, and after an amount of a final window was changed."""
    rig.define(policy=POLICY, cap=100)
    _read(rig)
    rig.batch()
    _retire(rig)
    batch = _look_at_batch(rig)
    rig.note("clean", _audit(rig, seed=1))
    _read(rig)
    before = int(delta.open_table(rig.version.uri).version())
    rig.note("versions", [before, _plant(rig)])
    rig.note("planted", _audit(rig, seed=2))
    rig.note("batch tables", [batch, _look_at_batch(rig)])
    rig.exit_code = 1 if rig.evidence["planted"]["state"] == "regression" else 0
    rig.note("moved", stage.roll_back_regression(rig.settings, rig.pipeline, CLOCK))
    rig.note("moved twice", stage.roll_back_regression(rig.settings, rig.pipeline, CLOCK))
    rig.note("stage", str(current_stage(rig.settings, rig.pipeline)))
    rig.note("events", [row.event for row in read_events(rig.settings, rig.pipeline.name)])


def _read(rig: Rig) -> None:
    rig.send(rig.draw(RECORDS, late=0.02))
    rig.close_windows()
    rig.drain()


def _retire(rig: Rig) -> None:
    record_stage(rig.settings, rig.pipeline, Stage.KAPPA)


def _audit(rig: Rig, *, seed: int) -> dict[str, object]:
    found = audit_windows(rig.settings, rig.pipeline, seed=seed, clock=CLOCK)
    kept = {"state": str(found.state), "windows": len(found.windows), "rows": found.rows, "wrong": len(found.wrong)}
    return kept | {"unexplained": found.unexplained, "late": found.causes.get("late", 0)}


def _plant(rig: Rig) -> int:
    """Change one amount of a window that became final since the last audit, as a defect of ours would."""
    schema = epoch_log_schema(rig.pipeline)
    with views.connect(rig.settings, rig.pipeline) as connection:
        query = "SELECT epoch_us(max(window_start)) FROM streaming WHERE _state = 'final'"
        (start,) = connection.execute(query).fetchall()[0]
    with queries.connect() as connection:
        delta.bind(connection, "held", delta.open_table(rig.version.uri))
        connection.execute("CREATE TEMP TABLE rows AS SELECT * FROM held WHERE _kind = 'partial'")
        _HELD[rig.topic] = queries.read_table(connection, "SELECT * FROM rows").cast(schema)
        chosen = "rowid = (SELECT min(rowid) FROM rows WHERE epoch_us(window_start) = ? AND _class = 'accepted')"
        connection.execute(f"UPDATE rows SET ids = ids + 1 WHERE {chosen}", [start])  # noqa: S608 -- ours
        term = queries.read_table(connection, "SELECT * FROM rows").cast(schema)
    return replace_rows(rig.version.uri, term, kind="partial")


def it_is_in_the_table(rig: Rig) -> bool:
    """One version more; the pipeline was in KAPPA; the audit before found nothing, declared late rows among it."""
    before, after = rig.evidence["versions"]
    clean = rig.evidence["clean"]
    return bool(after == before + 1 and clean["state"] == "agrees" and clean["late"] and rig.evidence["events"])


def one_row_is_found(rig: Rig) -> Iterator[str]:
    """The row that was changed, and no other: late rows that the ledger declares are no regression."""
    found = rig.evidence["planted"]
    if (found["state"], found["unexplained"], found["wrong"]) != ("regression", 1, 1):
        yield f"the audit says {found}"


def batch_serves_again(rig: Rig) -> Iterator[str]:
    """One move back, with the audit as its evidence."""
    evidence = rig.evidence
    if not evidence["moved"] or evidence["moved twice"] or evidence["stage"] != Stage.LAMBDA:
        yield f"moved {evidence['moved']}, again {evidence['moved twice']}, stage {evidence['stage']}"
    if evidence["events"] != ["advanced", "rolled_back"]:
        yield f"events of the gate: {evidence['events']}"


def nothing_is_published(rig: Rig) -> Iterator[str]:
    """Both audits left the batch tables, their own folder and the pins as they were."""
    before, after = rig.evidence["batch tables"]
    if before != after:
        yield f"batch tables and pins were {before}, are {after}"


def _look_at_batch(rig: Rig) -> list[object]:
    folder = Path(version_uri(rig.settings, rig.pipeline))
    tables = [int(delta.open_table(batch_uri(rig.settings, rig.pipeline, name)).version()) for name in BATCH_TABLES]
    held = pins.holders(rig.settings, rig.pipeline.name, result_fingerprint(rig.pipeline), now=CLOCK.now())
    return [tables, len(held), [one.name for one in folder.glob("audits/*")]]


def take_back(rig: Rig) -> None:
    """Put the rows back as they were."""
    replace_rows(rig.version.uri, _HELD.pop(rig.topic), kind="partial")


FAULTS = (
    Fault(
        id="F31",
        family="findings",
        title="difference after retirement",
        inject=change_an_amount,
        happened=it_is_in_the_table,
        heal=take_back,
        checks=("N1", "N3", "N4", "N5", "N6"),  # N2 sees the hand that planted it
        holds=(one_row_is_found, batch_serves_again, nothing_is_published),
        alert="RetirementRegression",
        exit_code=1,
    ),
)
