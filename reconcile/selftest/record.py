"""What self-tests came to: one row each, the newest of a definition counts."""

import json

from cutover import json_text
from cutover.clock import Clock
from cutover.definition.compile.fingerprint import result_fingerprint
from cutover.definition.model.pipeline import Pipeline
from cutover.lake.control import control_tables
from cutover.reconcile.selftest.outcome import RULES, SelfTest
from cutover.settings import Settings


def record(settings: Settings, found: SelfTest, clock: Clock) -> None:
    """Append a self-test to the history."""
    row = {
        "pipeline": found.pipeline,
        "result_fingerprint": found.result_fingerprint,
        "at": clock.now(),
        "passed": found.passed,
        "result": json_text.write(found),
    }
    control_tables.append(settings, "selftests", [row])


def newest(settings: Settings, pipeline: Pipeline) -> SelfTest | None:
    """Return the newest self-test under the definition in force; None: there is none that these rules counted.

    Raises:
        LakeError: The history cannot be read.
    """
    rows = control_tables.read(settings, "selftests", pipeline.name)
    mine = [row["result"] for row in rows if row["result_fingerprint"] == result_fingerprint(pipeline)]
    counted = [text for text in mine if json.loads(text).get("rules") == RULES]
    return json_text.read(SelfTest, counted[-1]) if counted else None
