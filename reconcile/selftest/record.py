"""What self-tests came to: one row each, the newest of a definition counts."""

import json

from cutover import json_text
from cutover.clock import Clock
from cutover.definition.model.pipeline import Pipeline
from cutover.lake.control import kept_results
from cutover.reconcile.selftest.outcome import RULES, SelfTest
from cutover.settings import Settings


def record(settings: Settings, found: SelfTest, clock: Clock) -> None:
    """Append a self-test to the history."""
    kept_results.keep(settings, "selftests", found, clock, passed=found.passed)


def newest(settings: Settings, pipeline: Pipeline) -> SelfTest | None:
    """Return the newest self-test under the definition in force; None: there is none that these rules counted.

    Raises:
        LakeError: The history cannot be read.
    """
    mine = kept_results.list_texts(settings, "selftests", pipeline)
    counted = [text for text in mine if json.loads(text).get("rules") == RULES]
    return json_text.read(SelfTest, counted[-1]) if counted else None
