"""The lists of modules that judge are whole: what they import judges too, or stands here with why it does not."""

import pkgutil

import grimp
import pytest

from cutover.batch.read import settings_in_force as batch_settings
from cutover.definition import windows
from cutover.engine.code import SHARED
from cutover.streaming.microbatch import settings_in_force as streaming_settings

ROOMS = ("cutover", "streaming", "batch")
NO_VALUE = {
    "what is said, kept and asked for beside records": """
        cutover.clock cutover.errors cutover.events cutover.process cutover.settings cutover.lake.control.signature
        cutover.engine.spark cutover.engine.storage cutover.output.terminal cutover.engine.code cutover.engine.confs
        cutover.engine.in_force cutover.engine.readback cutover.streaming.microbatch.settings_in_force
        cutover.batch.read.settings_in_force cutover.engine.usage cutover.lake.path_cost cutover.recorded_times""",
    "refuses a definition, or says when a pane comes": """
        cutover.definition.expressions.refusals cutover.definition.expressions.statements
        cutover.definition.model.triggers cutover.panes.held
        cutover.panes.machine cutover.panes.model cutover.streaming.panes.values""",
    "asks the log; what a reader gets is settings": """
        cutover.log.address cutover.log.cut cutover.log.kafka cutover.log.mark cutover.log.options
        cutover.log.marks cutover.log.transient_errors cutover.log.reachability""",
    "counts what was read, and refuses the whole run if records are missing": """
        cutover.lake.integrity.complete_read cutover.lake.integrity.lost_records cutover.log.record_batches""",
    "files and their records: bytes are held to checksums, rows to what was recorded of them": """
        cutover.lake.batch_runs cutover.lake.tables.checksums cutover.lake.journal
        cutover.lake.tables.run_memory cutover.lake.tables.data_files cutover.lake.tables.file_rows
        cutover.lake.epochs.delivery cutover.lake.epochs.epoch_log
        cutover.lake.tables.folder_names cutover.lake.control.losses cutover.lake.tables.commit_outcome
        cutover.lake.paths cutover.lake.sequence_marks cutover.lake.journal_rows
        cutover.lake.control.pins cutover.engine.queries cutover.engine.scratch
        cutover.lake.tables.delta_log cutover.lake.tables.delta cutover.lake.tables.upkeep
        cutover.lake.control.versions cutover.lake.tables.commits cutover.lake.integrity.foreign_commits
        cutover.lake.integrity.high_water cutover.lake.integrity.table_weights cutover.files
        cutover.streaming.sink.files cutover.streaming.compaction.id_expiry cutover.batch.read.index
        cutover.batch.staging cutover.batch.cut cutover.batch.context""",
    "which version of a dimension was joined: recorded, and part of the seal": """
        cutover.lake.dimensions.dimension cutover.batch.read.enrichment""",
    "plain Python that both paths are held against": "cutover.records.reference.lookups",
    "what the log no longer holds: such windows are incomplete by name": "cutover.batch.plan.retention",
}
OF_A_WINDOW = frozenset(found.name for found in pkgutil.iter_modules(windows.__path__, f"{windows.__name__}."))
"""Hashed where a definition has such a window, beside the modules of the lists."""
KNOWN = frozenset(name for names in NO_VALUE.values() for name in names.split()) | OF_A_WINDOW - {*SHARED}


NOT_OF_A_PATH = tuple(f"cutover.records.{room}" for room in ("reference", "files", "proposal", "sending"))
"""Plain Python that the paths are tested against, and files on their way to the log."""


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    return grimp.build_graph(*ROOMS, exclude_type_checking_imports=True, cache_dir=None)


def unlisted(graph: grimp.ImportGraph, listed: set[str]) -> set[str]:
    """Return what the listed modules import, at any distance, that stands on no list."""
    found = {upstream_module for name in listed for upstream_module in graph.find_upstream_modules(name)}
    packages = {name for name in found if graph.find_children(name)}  # these import their modules for users
    return found - listed - KNOWN - packages


@pytest.mark.parametrize("own", [(), streaming_settings.OWN, batch_settings.OWN], ids=["shared", "streaming", "batch"])
def test_each_module_that_judging_code_imports_is_hashed_or_known_to_judge_nothing(
    graph: grimp.ImportGraph, own: tuple[str, ...]
) -> None:
    assert unlisted(graph, {*SHARED, *own}) == set()


def test_every_module_that_parses_classifies_and_folds_is_hashed(graph: grimp.ImportGraph) -> None:
    found = {name for name in graph.find_descendants("cutover.records") if not name.startswith(NOT_OF_A_PATH)}
    packages = {name for name in found if graph.find_children(name)}

    assert found - packages - set(SHARED) == set()


def test_no_module_is_listed_twice_or_gone(graph: grimp.ImportGraph) -> None:
    listed = [*SHARED, *streaming_settings.OWN, *batch_settings.OWN]

    assert sorted(set(listed)) == sorted(listed)
    assert set(listed) & KNOWN == set()
    assert {*listed, *KNOWN} - graph.modules == set()


def test_a_judging_module_that_is_taken_off_the_list_is_named(graph: grimp.ImportGraph) -> None:
    listed = {*SHARED} - {"cutover.definition.measures.doubles"}

    assert unlisted(graph, listed) == {"cutover.definition.measures.doubles"}
