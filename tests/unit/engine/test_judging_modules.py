"""Completeness of the lists of hashed modules: each imported module is hashed too, or listed here with a reason."""

import pkgutil

import grimp
import pytest

from cutover.batch import context as batch_settings
from cutover.definition import windows
from cutover.engine.readback import SHARED
from cutover.streaming.microbatch import epoch_record as streaming_settings

ROOMS = ("cutover", "streaming", "batch")
NO_VALUE = {
    "messages, stored state and settings, which change no record": """
        cutover.clock cutover.counts cutover.errors cutover.events cutover.process cutover.settings
        cutover.changes
        cutover.engine.spark cutover.engine.storage cutover.output.terminal cutover.engine.readback
        cutover.engine.effective_settings cutover.engine.readback cutover.streaming.microbatch.epoch_record
        cutover.batch.context cutover.engine.usage cutover.recorded_times""",
    "refuses a definition, or says when a pane comes": """
        cutover.definition.expressions.statements cutover.definition.model.triggers cutover.panes.held_windows
        cutover.panes.machine cutover.panes.model cutover.streaming.panes.values""",
    "asks the log; what a reader gets is settings": """
        cutover.log.options cutover.log.cut cutover.log.kafka cutover.log.reachability
        cutover.log.transient_errors""",
    "counts the records read, and rejects the run if records are missing": """
        cutover.lake.integrity.complete_read cutover.lake.integrity.lost_records cutover.log.record_batches
        cutover.lake.integrity.same_log""",
    "files and their records: bytes are verified by checksums, rows by recorded totals": """
        cutover.lake.batch_runs cutover.lake.tables.checksums cutover.lake.journal
        cutover.lake.tables.data_files cutover.lake.epochs.delivery
        cutover.lake.epochs.epoch_log cutover.lake.control.losses cutover.lake.tables.commits cutover.pipeline_lake
        cutover.lake.sequence_marks cutover.lake.journal_rows cutover.lake.control.pins cutover.engine.queries
        cutover.lake.tables.delta_log cutover.lake.tables.delta
        cutover.lake.control.versions cutover.lake.integrity.foreign_commits cutover.lake.integrity.high_water
        cutover.lake.integrity.table_weights cutover.files cutover.streaming.sink.files
        cutover.batch.read.index
        cutover.batch.context""",
    "which version of a dimension was joined: recorded, and part of the seal": """
        cutover.lake.dimensions.dimension""",
    "which schema an id has: recorded by its digest, and part of the seal": """
        cutover.engine.schema_store""",
    "what a verdict tolerates, the gate requires, and texts say": "cutover.definition.model.policy",
    "names the table of a team's batch job, whose rows no path of ours computes": "cutover.definition.model.batch_job",
    "plain Python reference of both paths": "cutover.records.reference.lookups",
}
OF_A_WINDOW = frozenset(module.name for module in pkgutil.iter_modules(windows.__path__, f"{windows.__name__}."))
"""Hashed in addition to the listed modules if a definition has such a window."""
KNOWN = frozenset(name for names in NO_VALUE.values() for name in names.split()) | OF_A_WINDOW - {*SHARED}


NOT_OF_A_PATH = tuple(
    f"cutover.records.{room}"
    for room in ("reference", "record_files", "csv_files", "json_files", "proposal", "sending")
)
"""Plain Python that the paths are tested against, and files on their way to the log."""


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    return grimp.build_graph(*ROOMS, exclude_type_checking_imports=True, cache_dir=None)


def find_unlisted(graph: grimp.ImportGraph, listed_modules: set[str]) -> set[str]:
    """Find modules that the listed ones import, directly or indirectly, and that are on no list."""
    upstream_modules = {
        upstream_module for name in listed_modules for upstream_module in graph.find_upstream_modules(name)
    }
    packages = {name for name in upstream_modules if graph.find_children(name)}  # these import their modules for users
    return upstream_modules - listed_modules - KNOWN - packages


@pytest.mark.parametrize(
    "own_modules", [(), streaming_settings.OWN, batch_settings.OWN], ids=["shared", "streaming", "batch"]
)
def test_each_imported_module_is_hashed_or_listed_as_irrelevant(
    graph: grimp.ImportGraph, own_modules: tuple[str, ...]
) -> None:
    assert find_unlisted(graph, {*SHARED, *own_modules}) == set()


def test_every_module_that_parses_classifies_and_folds_is_hashed(graph: grimp.ImportGraph) -> None:
    record_modules = {name for name in graph.find_descendants("cutover.records") if not name.startswith(NOT_OF_A_PATH)}
    packages = {name for name in record_modules if graph.find_children(name)}

    assert record_modules - packages - set(SHARED) == set()


def test_no_module_is_listed_twice_or_missing(graph: grimp.ImportGraph) -> None:
    listed_modules = [*SHARED, *streaming_settings.OWN, *batch_settings.OWN]

    assert sorted(set(listed_modules)) == sorted(listed_modules)
    assert set(listed_modules) & KNOWN == set()
    assert {*listed_modules, *KNOWN} - graph.modules == set()


def test_a_module_removed_from_the_list_is_named(graph: grimp.ImportGraph) -> None:
    listed_modules = {*SHARED} - {"cutover.definition.measures.doubles"}

    assert find_unlisted(graph, listed_modules) == {"cutover.definition.measures.doubles"}
