"""How late the records of logs were: one row for each look, the newest under a definition and its lateness counts."""

from cutover import json_text
from cutover.clock import Clock
from cutover.definition.compile.fingerprint import lateness_fingerprint, result_fingerprint
from cutover.definition.model.pipeline import Pipeline
from cutover.lake.control import control_tables
from cutover.reconcile.result.timeliness import LogLateness
from cutover.settings import Settings


def record(settings: Settings, found: LogLateness, clock: Clock) -> None:
    """Append a look to the history."""
    row = {
        "pipeline": found.pipeline,
        "result_fingerprint": found.result_fingerprint,
        "lateness_fingerprint": found.lateness_fingerprint,
        "at": clock.now(),
        "result": json_text.write(found),
    }
    control_tables.append(settings, "lateness", [row])


def newest(settings: Settings, pipeline: Pipeline) -> LogLateness | None:
    """Return the newest look under the definition in force and its settings of lateness; None: there is none.

    Raises:
        LakeError: The history cannot be read.
    """
    rows = control_tables.read(settings, "lateness", pipeline.name)
    wanted = (result_fingerprint(pipeline), lateness_fingerprint(pipeline))
    mine = [row for row in rows if (row["result_fingerprint"], row["lateness_fingerprint"]) == wanted]
    return json_text.read(LogLateness, mine[-1]["result"]) if mine else None
