"""What self-tests came to: one row each, the newest of a definition counts."""

import json

from cutover import json_text
from cutover.clock import Clock
from cutover.definition.model.pipeline import Pipeline
from cutover.lake.journal import Journal
from cutover.reconcile.journal_rows import SelfTestRow, list_result_rows
from cutover.reconcile.selftest.outcome import RULES, SelfTest
from cutover.settings import Settings


def record(settings: Settings, found: SelfTest, clock: Clock) -> None:
    """Append a self-test to the history."""
    row = SelfTestRow(
        pipeline=found.pipeline,
        result_fingerprint=found.result_fingerprint,
        at=clock.now(),
        passed=found.passed,
        result=json_text.write(found),
    )
    Journal(settings, found.pipeline, SelfTestRow).append(row)


def list_valid(settings: Settings, pipeline: Pipeline) -> tuple[SelfTest, ...]:
    """List the self-tests under the definition in force that the rules of today counted, oldest first.

    Raises:
        LakeError: The history cannot be read.
    """
    results = [row.result for row in list_result_rows(settings, pipeline, SelfTestRow)]
    return tuple(json_text.read(SelfTest, text) for text in results if json.loads(text).get("rules") == RULES)


def newest(settings: Settings, pipeline: Pipeline) -> SelfTest | None:
    """Return the newest self-test under the definition in force; None: there is none that these rules counted.

    Raises:
        LakeError: The history cannot be read.
    """
    valid = list_valid(settings, pipeline)
    return valid[-1] if valid else None
