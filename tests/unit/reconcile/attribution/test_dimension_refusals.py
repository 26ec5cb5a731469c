"""Differences that versions of a dimension may cause are not compared if that can no longer be verified."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from cutover.engine.effective_settings import EffectiveSettings
from cutover.lake.dimensions import dimension as dimensions
from cutover.lake.dimensions.joined_versions import Rejoin, VersionSpan
from cutover.log.cut import LogId
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.attribution import dimension
from cutover.reconcile.attribution.dimension import Suspects, _check_settings, _make_unprovable_error
from cutover.reconcile.preconditions.seal import SealError
from cutover.reconcile.result.finding import SealBreach
from cutover.settings import Settings
from tests.unit.reconcile.attribution.indexed import PIPELINE, make_run, span

LOG = LogId(cluster_id="cluster-1", topic="views", topic_id="topic-1")
OLD, NEW = (span(0, 100, 0),), (span(0, 100, 1),)
GONE = 7  # a version that the table does not have


def write_dimension(settings: Settings) -> str:
    """Write versions 0 and 1, and return the table's id."""
    for campaign in ("x", "y"):
        rows = pa.table({"ad": ["a"], "campaign": [campaign]})
        write_deltalake(dimensions.own_uri(settings, "ads"), rows, mode="overwrite")
    return dimensions.open_dimension(PipelineLake(settings, PIPELINE), "ads").table_id


def find_refusal(  # noqa: PLR0913 -- versions of both sides, offsets to read, and state of the log
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    *,
    reads: Mapping[int, tuple[int, int]],
    stream: Sequence[VersionSpan] = OLD,
    batch: Sequence[VersionSpan] = NEW,
    log: LogId = LOG,
    begins: Mapping[int, int] | None = None,
) -> SealBreach | None:
    """Find the reason why dimension versions cannot be proven as a cause; all spans belong to the existing table."""
    table_id = write_dimension(settings)
    stream, batch = (tuple(replace(span, table_id=table_id) for span in spans) for spans in (stream, batch))
    client = Mock(describe=lambda _: log, earliest=lambda _: {0: 0} if begins is None else begins)
    monkeypatch.setattr(dimension, "LogClient", lambda _: client)
    suspects = [Suspects(run=make_run("a", dimensions={"ads": batch}), windows=(0,), reads=reads)]
    try:
        lake = PipelineLake(settings, PIPELINE)
        dimension._check_provable(lake, Rejoin(lake), {"ads": stream}, suspects)
    except SealError as error:
        return error.breach
    return None


def test_provable_versions_are_accepted(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_refusal(settings, monkeypatch, reads={0: (0, 100)}) is None


@pytest.mark.parametrize("side", ["stream", "batch"])
def test_a_version_that_is_gone_is_missed_where_records_that_are_read_were_joined_with_it(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, side: str
) -> None:
    spans: Any = {side: (span(0, 20, 0), span(20, 100, GONE))}

    assert find_refusal(settings, monkeypatch, reads={0: (10, 20)}, **spans) is None
    refused = find_refusal(settings, monkeypatch, reads={0: (10, 21)}, **spans)
    assert refused is not None
    assert (refused.code, refused.runbook) == ("dimension", "DimensionChanged")
    assert f"version {GONE}" in refused.message


def test_a_partition_of_which_no_epoch_recorded_a_version_cannot_be_shown(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = find_refusal(settings, monkeypatch, reads={0: (0, 100), 1: (0, 5)})

    assert refused is not None
    assert "lookup `ads`" in refused.message


@pytest.mark.parametrize("changes", [{"cluster_id": "another"}, {"topic_id": "another"}], ids=str)
def test_a_recreated_log_proves_nothing(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, changes: Mapping[str, str]
) -> None:
    refused = find_refusal(settings, monkeypatch, reads={0: (0, 100)}, log=replace(LOG, **changes))

    assert refused is not None
    assert "topic `views` was recreated and is a different log" in refused.message


@pytest.mark.parametrize(
    ("begins", "expected_message"),
    [
        ({0: 10, 1: 5}, None),
        ({0: 11, 1: 5}, "partition 0: the log no longer has the records from offset 10"),
        ({0: 10, 1: 6}, "partition 1: the log no longer has the records from offset 5"),
    ],
)
def test_records_that_have_left_the_log_show_nothing(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, begins: Mapping[int, int], expected_message: str | None
) -> None:
    stream, batch = ((*spans, replace(spans[0], partition=1)) for spans in (OLD, NEW))
    reads = {0: (10, 20), 1: (5, 20)}

    refused = find_refusal(settings, monkeypatch, reads=reads, stream=stream, batch=batch, begins=begins)

    assert (refused is not None) is (expected_message is not None)
    assert refused is None or f"{expected_message} on" in refused.message


def test_a_partition_of_which_the_log_names_no_beginning_holds_all_its_records(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert find_refusal(settings, monkeypatch, reads={0: (0, 100)}, begins={}) is None


@pytest.mark.parametrize("reason", ["the table is gone", "the table is gone."])
def test_a_rejection_ends_in_one_full_stop(reason: str) -> None:
    message = _make_unprovable_error(PIPELINE, reason).breach.message

    assert message.endswith("this cause can be neither proven nor ruled out: the table is gone.")


HERE = EffectiveSettings({"spark": {"spark.sql.ansi.enabled": "true"}})


def test_a_session_with_batchs_settings_is_accepted() -> None:
    run = make_run("a", in_force="d", in_force_items=HERE.families)

    _check_settings(PIPELINE, Mock(run=run), [run], HERE)


def test_a_session_with_other_settings_than_batch_is_rejected() -> None:
    run = make_run("a", in_force="d", in_force_items={"spark": {"spark.sql.ansi.enabled": "false"}})

    with pytest.raises(SealError, match=r"ansi\.enabled") as refused:
        _check_settings(PIPELINE, Mock(run=run), [run], HERE)

    assert (refused.value.breach.code, refused.value.runbook) == ("settings", "SealBroken")
