"""History of self-tests: one row for each, of which the newest of a definition counts."""

import json

from cutover import json_text
from cutover.clock import Clock
from cutover.lake.journal import Journal
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.journal_rows import SelfTestRow, list_result_rows
from cutover.reconcile.selftest.outcome import RULES, SelfTest
from cutover.settings import Settings


def record_self_test(settings: Settings, self_test: SelfTest, clock: Clock) -> None:
    """Append a self-test to the history."""
    row = SelfTestRow(
        pipeline=self_test.pipeline,
        result_fingerprint=self_test.result_fingerprint,
        at=clock.now(),
        passed=self_test.passed,
        result=json_text.encode_dataclass(self_test),
    )
    Journal(settings, self_test.pipeline, SelfTestRow).append(row)


def list_valid(lake: PipelineLake) -> tuple[SelfTest, ...]:
    """List the self-tests under the definition in force that the rules of today counted, oldest first.

    Raises:
        LakeError: The history cannot be read.
    """
    results = [row.result for row in list_result_rows(lake, SelfTestRow)]
    return tuple(
        json_text.parse_dataclass(SelfTest, text) for text in results if json.loads(text).get("rules") == RULES
    )


def find_newest_self_test(lake: PipelineLake) -> SelfTest | None:
    """Return the newest self-test under the definition in force; None: there is none that these rules counted.

    Raises:
        LakeError: The history cannot be read.
    """
    valid = list_valid(lake)
    return valid[-1] if valid else None
