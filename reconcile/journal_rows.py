"""Row types of the control tables that only comparisons, checks and audits write and read."""

from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, TypeVar

from cutover.definition.compile.fingerprint import result_fingerprint
from cutover.lake.journal import Journal, JournalRow
from cutover.lake.journal_rows import JsonResultRow
from cutover.pipeline_lake import PipelineLake


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
