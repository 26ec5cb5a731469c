"""Inputs of the pages, each cached for some seconds: definitions, lake and log.

Many readers of one page cost one read.
"""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from typing import Generic, TypeVar

from cutover.clock import Clock, SystemClock
from cutover.definition.loading import catalogue
from cutover.definition.model.pipeline import Pipeline
from cutover.lake import recorded_definitions
from cutover.reconcile.pages.view import PipelineLine, PipelineView, list_reports, read_summary, read_view
from cutover.reconcile.watch.collector import FactCollector
from cutover.settings import Settings

Value = TypeVar("Value")
CACHE_SECONDS = 10.0


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
        return self._summaries.get(pipeline.name, lambda: read_summary(self.settings, pipeline))

    def newest_page(self, pipeline: Pipeline) -> str | None:
        """Return the file of the current report of a pipeline, if it exists."""
        pages = (report.forms[0] for report in list_reports(self.settings, pipeline) if report.forms)
        return next((name for name in pages if name.endswith(".html")), None)

    def _scan(self) -> tuple[dict[str, Pipeline], tuple[str, ...]]:
        current = catalogue.read_catalogue(self.settings)
        recorded_pipelines = recorded_definitions.list_shown(self.settings, current)
        return recorded_pipelines | current.pipelines, tuple(map(str, current.problems))

    def _gather(self, pipeline: Pipeline) -> PipelineView:
        collector = self._collectors.get(pipeline.name)
        if collector is None or collector.pipeline != pipeline:
            collector = self._collectors[pipeline.name] = FactCollector(self.settings, pipeline, self.clock)
        return read_view(self.settings, pipeline, self.clock, collector)
