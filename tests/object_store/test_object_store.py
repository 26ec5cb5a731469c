"""Both paths and the reconciler with every table in an object store; an overtaken writer is refused there too."""

import pytest
from deltalake import CommitProperties, Transaction
from deltalake.exceptions import CommitFailedError

from cutover.batch import recompute
from cutover.lake.control import versions
from cutover.lake.tables import commits, delta
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.result.finding import Verdict
from cutover.reconcile.run import run_reconciliation
from cutover.settings import Settings
from cutover.streaming import driver
from tests.integration.streaming import rig
from tests.integration.streaming.rig import Event

EVENTS = [Event(id=i, minute=i / 3, key="ab"[i % 2], partition=i % 2) for i in range(100)]
LATE = [Event(id=1000 + i, minute=0, logged=40, partition=i % 2) for i in range(5)]
CLOSING = [Event(id=2000 + i, minute=90, partition=i % 2) for i in range(4)]


@pytest.mark.parametrize("overflow_rows", [200_000, 1])
def test_both_paths_agree_up_to_the_late_rows(store_settings: Settings, topic_name: str, overflow_rows: int) -> None:
    settings = rig.fast(store_settings, overflow_rows=overflow_rows, fold_every=5)
    pipeline = rig.pipeline(topic_name, cap=10)
    rig.make_topic(settings, topic_name, partitions=2)

    lake = PipelineLake(settings, pipeline)
    for part in (EVENTS, LATE, CLOSING):
        rig.send(settings, topic_name, part)
        driver.run_driver(lake, until="drain")
    recompute.recompute_windows(lake)
    report = run_reconciliation(lake)

    assert rig.expect_cells([*EVENTS, *LATE, *CLOSING]) == rig.count_by_cell(lake)
    assert rig.gaps(rig.records(lake)) == []
    assert (report.finding.verdict, report.finding.causes["late"].events) == (Verdict.EXPLAINED, len(LATE))


def test_an_overtaken_handle_is_refused(store_settings: Settings, topic_name: str) -> None:
    settings, pipeline = rig.fast(store_settings), rig.pipeline(topic_name)
    rig.make_topic(settings, topic_name)
    rig.send(settings, topic_name, [Event(id=1)])
    lake = PipelineLake(settings, pipeline)
    driver.run_driver(lake, until="drain")
    version = versions.find_current_version(lake)
    assert version is not None
    first_handle, second = delta.open_table(version.uri), delta.open_table(version.uri)
    commit = CommitProperties(app_transactions=[Transaction(version.app_id, 1)])
    empty = delta.read_schema(second).empty_table()
    commits.append(first_handle, empty, commit=commit)

    with pytest.raises(CommitFailedError, match="Concurrent transaction"):
        commits.append(second, empty, commit=commit)
