"""Content of the page of one pipeline, read without an engine; a part that cannot be read shows the reason.

Inputs (definitions, lake and log) are cached for some seconds each, so that many readers of one page cost one read. Of
the reports folder a reader gets files of the requested pipeline, by plain name, no links.
"""

import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from threading import Lock
from typing import Generic, TypeVar

from cutover.clock import Clock, SystemClock
from cutover.definition.loading import catalogue
from cutover.definition.loading.key_text import format_columns
from cutover.definition.model.pipeline import Pipeline
from cutover.definition.model.policy import Stage
from cutover.errors import CutoverError
from cutover.lake import recorded_definitions
from cutover.lake.control.served import current_stage, read_gate_events
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.cli.differences import REST, count_states, describe_state
from cutover.reconcile.cost import measure_present
from cutover.reconcile.gate import evidence as evidence_of
from cutover.reconcile.gate.decide import GateDecision, decide
from cutover.reconcile.result import text
from cutover.reconcile.result.report import describe_cost_lines, describe_price
from cutover.reconcile.verdict import history
from cutover.reconcile.verdict.lifecycle import BEYOND, DifferenceState, OpenDifference, read_key
from cutover.reconcile.watch.collector import FactCollector
from cutover.reconcile.watch.status import WatchStatus, make_status
from cutover.settings import Settings

_PIPELINE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}\Z")
_FILE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}\.(html|json|csv|parquet)\Z")
FORMS = {
    ".html": "text/html; charset=utf-8",
    ".csv": "text/csv; charset=utf-8",
    ".json": "application/json",
    ".parquet": "application/vnd.apache.parquet",
}
"""Ending -> media type, in the order in which a page offers them."""

Value = TypeVar("Value")
SHOWN = 10
"""Reports, moves and differences that a page lists; the commands that it names list all."""

PATIENCE_SECONDS = 2.0
"""How long a page waits for a broker: a reader looks most often when something is down."""

CACHE_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Part(Generic[Value]):
    """Part of a page: its value, or why it could not be read."""

    value: Value | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportLine:
    """One comparison in the list of the newest."""

    at: datetime
    epoch: int | None
    verdict: str
    good: bool  # within the policy
    run_id: str
    forms: tuple[str, ...]  # names of its existing files, the page first
    runbook: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveLine:
    """One move in the gate's history."""

    at: datetime
    stage: str
    event: str
    actor: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferenceLine:
    """One row that nothing explains."""

    window: str
    key: str
    kind: str
    state: str
    first_seen: datetime
    runs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferenceList:
    """The rows that nothing explains: the sentence that counts them, and the oldest of them."""

    sentence: str
    are_open: int
    lines: tuple[DifferenceLine, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineView:
    """Content of the page of a pipeline."""

    pipeline: str
    at: datetime
    stage: Part[Stage]
    gate: Part[GateDecision]
    moves: Part[tuple[MoveLine, ...]]  # the newest first
    reports: Part[tuple[ReportLine, ...]]  # the current comparison first
    stream: Part[WatchStatus]
    differences: Part[DifferenceList]
    cost: Part[tuple[tuple[str, str], ...]]  # a head and a sentence a line


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineLine:
    """One pipeline in the list of all."""

    pipeline: str
    stage: Part[Stage]
    report: Part[ReportLine]  # its value is None before the first comparison


@dataclass(slots=True)
class Cache(Generic[Value]):
    """Values by name, each rebuilt once it is older than `CACHE_SECONDS`; one reader builds it, others wait."""

    clock: Clock
    _values: dict[str, tuple[float, Value]] = field(default_factory=dict)
    _locks: defaultdict[str, Lock] = field(default_factory=lambda: defaultdict(Lock))

    def get(self, name: str, make: Callable[[], Value]) -> Value:
        """Return the value of a name; an error of `make` is raised and not cached."""
        with self._locks[name]:
            cached = self._values.get(name)
            if cached is not None and self.clock.monotonic() - cached[0] < CACHE_SECONDS:
                return cached[1]
            value = make()
            self._values[name] = (self.clock.monotonic(), value)
            return value


def is_pipeline_name(name: str) -> bool:
    """Return whether a text can be the name of a pipeline: nothing else is looked up anywhere."""
    return _PIPELINE.match(name) is not None


def find_file(settings: Settings, pipeline: str, name: str) -> Path | None:
    """Return a report's file, resolved; None for every name that is not one of a plain file in the pipeline's folder.

    A link is rejected, whatever its target: the folder itself must also lie in the reports folder under its own name.
    """
    if not is_pipeline_name(pipeline) or not _FILE.match(name):
        return None
    folder = settings.reports_dir.resolve() / pipeline
    path = folder / name
    return path if path.is_file() and path.resolve() == path else None


def list_forms(settings: Settings, pipeline: str, run_id: str) -> tuple[str, ...]:
    """Return the names of a run's files that exist, the page first."""
    names = (f"{run_id}{ending}" for ending in FORMS)
    return tuple(name for name in names if find_file(settings, pipeline, name) is not None)


def read_view(lake: PipelineLake, clock: Clock, gathering: FactCollector) -> PipelineView:
    """Read what the page of a pipeline shows; the lake and the log are only read.

    Args:
        lake: The pipeline; `bound_waiting` of its settings bounds how long a broker may take.
        clock: The time of the page.
        gathering: Samples the stream; reused from page to page, since some alerts need several samples.
    """
    stage = _try(lambda: current_stage(lake))
    return PipelineView(
        pipeline=lake.name,
        at=clock.now(),
        stage=stage,
        gate=_try(lambda: _decide(lake, clock)),
        moves=_try(lambda: _list_moves(lake)),
        reports=_try(lambda: list_reports(lake)),
        stream=_try(lambda: make_status(gathering.collect())),
        differences=_try(lambda: _list_differences(lake)),
        cost=_try(lambda: _list_costs(lake)),
    )


def read_summary(lake: PipelineLake) -> PipelineLine:
    """Read the stage and the newest report of a pipeline; the log is not asked."""
    newest = _try(lambda: next(iter(list_reports(lake)), None))
    return PipelineLine(pipeline=lake.name, stage=_try(lambda: current_stage(lake)), report=newest)


def bound_waiting(settings: Settings) -> Settings:
    """Return the settings with a bound on how long a broker may take to answer."""
    patience = min(settings.kafka.timeout_seconds, PATIENCE_SECONDS)
    return settings.model_copy(update={"kafka": settings.kafka.model_copy(update={"timeout_seconds": patience})})


def list_reports(lake: PipelineLake) -> tuple[ReportLine, ...]:
    """Return the current comparison of a pipeline, then the others from the newest cut back.

    Raises:
        LakeError: The history cannot be read.
    """
    return tuple(
        ReportLine(
            at=comparison.last_recorded,
            epoch=comparison.epoch if comparison.has_cut else None,
            verdict=str(comparison.verdict),
            good=comparison.exit_code == 0,
            run_id=comparison.run_id,
            forms=list_forms(lake.settings, lake.name, comparison.run_id),
            runbook=comparison.result.get("runbook"),
        )
        for comparison in history.list_current_first(lake)[:SHOWN]
    )


def _decide(lake: PipelineLake, clock: Clock) -> GateDecision:
    now = clock.now()
    evidence = evidence_of.read_evidence(lake, now)
    stage = current_stage(lake)
    return decide(stage, evidence, "advance", lake.pipeline.policy, now).name_pipeline(lake.name)


def _list_moves(lake: PipelineLake) -> tuple[MoveLine, ...]:
    rows = read_gate_events(lake.settings, lake.name)[-SHOWN:]
    return tuple(
        MoveLine(at=row.at, stage=row.stage, event=row.event, actor=row.who, reason=row.why) for row in reversed(rows)
    )


def _list_differences(lake: PipelineLake) -> DifferenceList:
    open_differences = history.read_open_differences(lake).values()
    still = DifferenceState.OPEN
    ordered = sorted(
        open_differences,
        key=lambda difference: (
            difference.state is not still,
            difference.first_seen,
            difference.window_start,
            difference.key,
        ),
    )
    return DifferenceList(
        sentence=f"{count_states(lake.name, ordered)}.",
        are_open=sum(difference.state is still for difference in ordered),
        lines=tuple(_describe_difference(difference, lake.pipeline) for difference in ordered[:SHOWN]),
    )


def _describe_difference(open_difference: OpenDifference, pipeline: Pipeline) -> DifferenceLine:
    return DifferenceLine(
        window=text.when(open_difference.window_start),
        key=REST if open_difference.kind == BEYOND else format_columns(read_key(open_difference, pipeline.key)),
        kind=open_difference.kind.replace("_", " "),
        state=describe_state(open_difference),
        first_seen=open_difference.first_seen,
        runs=open_difference.runs,
    )


def _list_costs(lake: PipelineLake) -> tuple[tuple[str, str], ...]:
    costs = measure_present(lake)
    return (*describe_cost_lines(costs), ("price", describe_price(lake.name, costs)))


def _try(look: Callable[[], Value | None]) -> Part[Value]:
    try:
        return Part(value=look())
    except CutoverError as error:
        return Part(error=str(error))


@dataclass(slots=True)
class PageInputs:
    """Cached reads for the pages."""

    settings: Settings
    clock: Clock = field(default_factory=SystemClock)
    _collectors: dict[str, FactCollector] = field(default_factory=dict)
    _views: Cache[PipelineView] = field(init=False)
    _summaries: Cache[PipelineLine] = field(init=False)
    _catalogue: Cache[tuple[dict[str, Pipeline], tuple[str, ...]]] = field(init=False)

    def __post_init__(self) -> None:
        self._views, self._summaries, self._catalogue = Cache(self.clock), Cache(self.clock), Cache(self.clock)

    def find_pipelines(self) -> tuple[dict[str, Pipeline], tuple[str, ...]]:
        """Return the pipelines by name, and the errors of definitions that do not load."""
        return self._catalogue.get("", self._scan)

    def view(self, pipeline: Pipeline) -> PipelineView:
        """Return gate, reports and stream at most `CACHE_SECONDS` old."""
        return self._views.get(pipeline.name, lambda: self._gather(pipeline))

    def summary(self, pipeline: Pipeline) -> PipelineLine:
        """Return stage and newest verdict, at most `CACHE_SECONDS` old, without reading the log."""
        return self._summaries.get(pipeline.name, lambda: read_summary(PipelineLake(self.settings, pipeline)))

    def newest_page(self, pipeline: Pipeline) -> str | None:
        """Return the file of the current report of a pipeline, if it exists."""
        pages = (report.forms[0] for report in list_reports(PipelineLake(self.settings, pipeline)) if report.forms)
        return next((name for name in pages if name.endswith(".html")), None)

    def _scan(self) -> tuple[dict[str, Pipeline], tuple[str, ...]]:
        current = catalogue.read_catalogue(self.settings)
        recorded_pipelines = recorded_definitions.list_shown(self.settings, current)
        return recorded_pipelines | current.pipelines, tuple(map(str, current.problems))

    def _gather(self, pipeline: Pipeline) -> PipelineView:
        collector = self._collectors.get(pipeline.name)
        lake = PipelineLake(self.settings, pipeline)
        if collector is None or collector.lake.pipeline != pipeline:
            collector = self._collectors[pipeline.name] = FactCollector(lake, self.clock)
        return read_view(lake, self.clock, collector)
