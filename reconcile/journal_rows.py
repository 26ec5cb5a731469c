"""Row types of the control tables that only comparisons, checks and audits write and read.

Self-tests, measurements of lateness and advice have a row each, of which the newest under a definition counts.
"""

import json
from dataclasses import dataclass, replace
from datetime import datetime
from typing import ClassVar, TypeVar

from cutover import json_text
from cutover.clock import Clock
from cutover.definition.compile.fingerprint import lateness_fingerprint, result_fingerprint
from cutover.lake.journal import Journal, JournalRow
from cutover.lake.journal_rows import JsonResultRow
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.result.measurements import RULES, LogLateness, SelfTest
from cutover.reconcile.result.parts import Advice
from cutover.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferenceEvent(JournalRow):
    """State of a different (window, key) row, as one comparison or a person saw it."""

    TABLE: ClassVar[str] = "differences"

    result_fingerprint: str
    run_id: str
    at: datetime
    window_start: datetime
    key: str  # JSON
    kind: str
    cause: str
    state: str
    detail: str | None  # JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationRow(JournalRow):
    """Run of the checks."""

    TABLE: ClassVar[str] = "verifications"

    at: datetime
    epoch: int | None  # latest one that was checked
    result_fingerprint: str
    stream_version: int | None
    exhaustive: bool  # everything that the log holds was checked, not a sample
    checks: str  # JSON: check -> state
    violations: str  # JSON: [check, sentence]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvenClaims(JournalRow):
    """Claims that the log confirmed."""

    TABLE: ClassVar[str] = "proofs"

    result_fingerprint: str
    at: datetime
    digests: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfTestRow(JsonResultRow):
    """Self-test of the comparison."""

    TABLE: ClassVar[str] = "selftests"

    passed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LatenessRow(JsonResultRow):
    """Measured lateness of a log."""

    TABLE: ClassVar[str] = "lateness"

    lateness_fingerprint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AdviceRow(JsonResultRow):
    """Advice on lateness."""

    TABLE: ClassVar[str] = "advice"


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseRow(JsonResultRow):
    """Measured noise of floating-point measures."""

    TABLE: ClassVar[str] = "noise"


ResultRowT = TypeVar("ResultRowT", bound=JsonResultRow)


def list_result_rows(lake: PipelineLake, row_type: type[ResultRowT]) -> list[ResultRowT]:
    """List the results under the current definition in the order in which they were recorded.

    Raises:
        LakeError: The journal cannot be read.
    """
    fingerprint = result_fingerprint(lake.pipeline)
    rows = Journal(lake.settings, lake.name, row_type).read()
    return [row for row in rows if row.result_fingerprint == fingerprint]


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


def list_valid_self_tests(lake: PipelineLake) -> tuple[SelfTest, ...]:
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
    valid = list_valid_self_tests(lake)
    return valid[-1] if valid else None


def record_lateness(settings: Settings, log_lateness: LogLateness, clock: Clock) -> None:
    """Append a measurement of lateness to the history."""
    row = LatenessRow(
        pipeline=log_lateness.pipeline,
        result_fingerprint=log_lateness.result_fingerprint,
        lateness_fingerprint=log_lateness.lateness_fingerprint,
        at=clock.now(),
        result=json_text.encode_dataclass(log_lateness),
    )
    Journal(settings, log_lateness.pipeline, LatenessRow).append(row)


def find_newest_lateness(lake: PipelineLake) -> LogLateness | None:
    """Return the latest measurement under the current definition and its settings of lateness; None if there is none.

    Raises:
        LakeError: The history cannot be read.
    """
    lateness = lateness_fingerprint(lake.pipeline)
    rows = list_result_rows(lake, LatenessRow)
    results = [row.result for row in rows if row.lateness_fingerprint == lateness]
    return json_text.parse_dataclass(LogLateness, results[-1]) if results else None


def record_advice(settings: Settings, advice: Advice, clock: Clock) -> None:
    """Append an advice to the history."""
    row = AdviceRow(
        pipeline=advice.pipeline,
        result_fingerprint=advice.result_fingerprint,
        at=clock.now(),
        result=json_text.encode_dataclass(advice),
    )
    Journal(settings, advice.pipeline, AdviceRow).append(row)


def find_advice(lake: PipelineLake) -> Advice | None:
    """Return the latest advice under the current definition, whatever its lateness; None if there is none.

    An advice without a proof gets that of an older one with the same predictions from the same epochs.

    Raises:
        LakeError: The history cannot be read.
    """
    history = [json_text.parse_dataclass(Advice, row.result) for row in list_result_rows(lake, AdviceRow)]
    if not history:
        return None
    latest = history[-1]
    place = (latest.version, latest.epoch, latest.records)
    settings_to_prove = set(latest.settings)
    for older in reversed(history):
        if (
            older.proven
            and (older.version, older.epoch, older.records) == place
            and settings_to_prove <= set(older.settings)
        ):
            return replace(latest, settings=older.settings, proven=older.proven, proven_at=older.proven_at)
    return latest
