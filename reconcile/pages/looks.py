"""Inputs of the pages, each cached for some seconds: the definitions, the lake, the log."""

from dataclasses import dataclass, field

from cutover.clock import Clock, SystemClock
from cutover.definition.loading import catalogue
from cutover.definition.model.pipeline import Pipeline
from cutover.lake import recorded_definitions
from cutover.reconcile.pages.kept import Kept
from cutover.reconcile.pages.view import PipelineLine, PipelineView, gather, list_reports, summarize
from cutover.reconcile.watch.collector import FactCollector
from cutover.settings import Settings


@dataclass(slots=True)
class Looks:
    """Cached reads for the pages; many readers of one page cost one read."""

    settings: Settings
    clock: Clock = field(default_factory=SystemClock)
    _gatherings: dict[str, FactCollector] = field(default_factory=dict)
    _views: Kept[PipelineView] = field(init=False)
    _summaries: Kept[PipelineLine] = field(init=False)
    _known: Kept[tuple[dict[str, Pipeline], tuple[str, ...]]] = field(init=False)

    def __post_init__(self) -> None:
        self._views, self._summaries, self._known = Kept(self.clock), Kept(self.clock), Kept(self.clock)

    def find_pipelines(self) -> tuple[dict[str, Pipeline], tuple[str, ...]]:
        """Return the pipelines by name, and what is wrong with the definitions that do not load."""
        return self._known.get("", self._scan)

    def view(self, pipeline: Pipeline) -> PipelineView:
        """Return gate, reports and stream at most `KEPT_SECONDS` old."""
        return self._views.get(pipeline.name, lambda: self._gather(pipeline))

    def summary(self, pipeline: Pipeline) -> PipelineLine:
        """Return stage and newest verdict, at most `KEPT_SECONDS` old; asks no broker."""
        return self._summaries.get(pipeline.name, lambda: summarize(self.settings, pipeline))

    def newest_page(self, pipeline: Pipeline) -> str | None:
        """Return the file of the current report of a pipeline, if it exists."""
        pages = (report.forms[0] for report in list_reports(self.settings, pipeline) if report.forms)
        return next((name for name in pages if name.endswith(".html")), None)

    def _scan(self) -> tuple[dict[str, Pipeline], tuple[str, ...]]:
        current = catalogue.read_catalogue(self.settings)
        recorded_pipelines = recorded_definitions.list_shown(self.settings, current)
        return recorded_pipelines | current.pipelines, tuple(map(str, current.problems))

    def _gather(self, pipeline: Pipeline) -> PipelineView:
        gathering = self._gatherings.get(pipeline.name)
        if gathering is None or gathering.pipeline != pipeline:
            gathering = self._gatherings[pipeline.name] = FactCollector(self.settings, pipeline, self.clock)
        return gather(self.settings, pipeline, self.clock, gathering)
