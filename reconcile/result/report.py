"""Reports of comparisons: a finding, the metadata of the run that recorded it, and what the page shows in addition.

The published JSON object (`report.schema.json`) is flat: the fields of all three values and `schema`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from cutover.lake.batch_runs import Range
from cutover.reconcile.result.codec import decode_tree, encode_tree
from cutover.reconcile.result.cost import PathCosts
from cutover.reconcile.result.finding import Finding, rename_fields
from cutover.reconcile.result.measurements import EarlyAnswers, LogLateness
from cutover.reconcile.result.parts import Advice, DifferenceLife, ErrorRates, NoiseLevel, RunOfTrend, Settlement
from cutover.reconcile.result.seal import TablesRead

SCHEMA = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonOutcome:
    """Finding of one comparison, with what was measured on the open sides and is not part of the finding."""

    finding: Finding
    tables: TablesRead = field(default_factory=TablesRead)
    settlement: Settlement | None = None  # not part of the finding, because it depends on compaction
    early: EarlyAnswers | None = None  # the same
    skipped_ranges: tuple[Range, ...] = ()  # closed windows that were skipped, and the range of open ones; microseconds


@dataclass(frozen=True, slots=True, kw_only=True)
class RunMetadata:
    """Run that made a comparison, and where its files are; paths are relative to the reports folder."""

    run_id: str
    at: str  # ISO; for a repeated finding the time of its first run
    seconds: float = 0.0
    tables: TablesRead = field(default_factory=TablesRead)
    scope_note: str | None = None  # its limited scope, as a sentence; None for the current comparison
    repeats: int = 0  # earlier runs with the same finding at this cut and over this range
    repeated_at: str | None = None  # ISO; time of this run, if it repeats a finding
    report: str | None = None  # JSON
    page: str | None = None  # HTML
    parquet: str | None = None  # every row that differs; None if the file was not written

    @property
    def report_path(self) -> str | None:
        """Return the path of the HTML page, or of the JSON file."""
        return self.page or self.report


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Complete data of one comparison for the page, the JSON and the terminal."""

    finding: Finding
    run: RunMetadata
    settlement: Settlement | None = None  # None: no window was compared
    early: EarlyAnswers | None = None  # None: no window was compared
    lives: tuple[DifferenceLife, ...] = ()  # of the unexplained rows in `differences`
    trend: tuple[RunOfTrend, ...] = ()  # latest comparisons of the definition, including this one, oldest first
    self_test: ErrorRates | None = None  # None: none under this definition
    log_lateness: LogLateness | None = None  # the newest of `cutover lateness`; None: none under this definition
    noise: NoiseLevel | None = None  # the newest of `cutover noise`; None: none under this definition
    advice: Advice | None = None  # the newest of `cutover advise`; None: none under this definition
    cost: PathCosts | None = None  # of both paths; None: no epoch could be read
    own_tables: str | None = None  # which tables of the team's own jobs people read: a sentence; None: no such job

    def to_json(self) -> dict[str, Any]:
        """Encode the report as one flat JSON object: finding, run and additions side by side, with the schema."""
        additions = {name: encode_tree(getattr(self, name)) for name in _ADDITIONS}
        run: dict[str, Any] = encode_tree(self.run)
        return {"schema": SCHEMA} | self.finding.to_json() | run | additions

    @staticmethod
    def from_json(raw: Mapping[str, Any]) -> "Report":
        """Parse a report from a published object; fields of newer versions are ignored.

        Raises:
            LakeError: It is not the object of a report.
        """
        flat = rename_fields(raw, {"from": "from_", "class": "class_"})
        return decode_tree(
            Report, {"finding": flat, "run": flat} | {name: flat[name] for name in _ADDITIONS if name in flat}
        )


_ADDITIONS = tuple(report_field.name for report_field in fields(Report) if report_field.name not in {"finding", "run"})
