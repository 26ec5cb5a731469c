from dataclasses import replace

import pytest

from cutover.errors import DefinitionError, LogError
from cutover.lake.epochs import delivery
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.pipeline_lake import PipelineLake
from cutover.settings import Settings, StreamSettings
from cutover.streaming.source import start_offsets
from tests.integration.streaming import rig
from tests.support.log.losses import LOSS as A_LOSS

RECORD = EpochRecord(
    epoch=41,
    run_id="pid-1-a",
    topic="flights",
    topic_id="A",
    cluster_id="C",
    start={0: 0, 1: 0},
    end={0: 40, 1: 7},
    max_event={},
    watermark_before=None,
    watermark_after=None,
)


FLIGHTS = rig.pipeline("flights")
LOSS = replace(A_LOSS, epoch=42, topic="flights")
ANEW = replace(LOSS, kind="anew", epoch=0, stream_version=1, onward_topic_id="B", next=None)


def starts(
    next_offsets: dict[int, int] | None, earliest: dict[int, int], latest: dict[int, int] | None = None
) -> dict[int, int]:
    return start_offsets.start_offsets(
        FLIGHTS, next_offsets, earliest=earliest, latest=latest or dict.fromkeys(earliest, 99)
    )


def test_first_start_begins_where_the_log_begins() -> None:
    assert delivery.next_offsets(None, (), "A") is None
    assert starts(None, {0: 3, 1: 0}) == {0: 3, 1: 0}


def test_start_is_the_end_of_the_newest_epoch() -> None:
    next_offsets = delivery.next_offsets(RECORD, (), "A")

    assert starts(next_offsets, {0: 0, 1: 7}, {0: 40, 1: 9}) == {0: 40, 1: 7}


def test_start_is_after_the_losses_recorded_for_the_next_epoch() -> None:
    other_losses = (replace(LOSS, epoch=41, partition=1, next=9), replace(LOSS, topic_id="B", partition=1, next=9))

    assert delivery.next_offsets(RECORD, (*other_losses, LOSS), "A") == {0: 60, 1: 7}


def test_version_opened_by_a_loss_starts_at_the_recorded_offset() -> None:
    reopened_loss = replace(ANEW, topic_id="B", first=0, next=4)

    assert delivery.next_offsets(None, (ANEW, reopened_loss), "B") == {0: 4}
    assert starts(delivery.next_offsets(None, (ANEW, reopened_loss), "B"), {0: 4, 1: 0}) == {0: 4, 1: 0}
    with pytest.raises(LogError, match="partition 0: expected offset 4, log starts at 5: 1 offsets are gone"):
        starts(delivery.next_offsets(None, (ANEW, reopened_loss), "B"), {0: 5, 1: 0})


def test_next_log_is_the_recorded_or_the_accepted_one() -> None:
    assert start_offsets.find_expected_log(None, ()) is None
    assert start_offsets.find_expected_log(None, (ANEW,)) == "B"
    assert start_offsets.find_expected_log(RECORD, (LOSS,)) == "A"


def test_new_partition_starts_at_zero() -> None:
    assert starts(dict(RECORD.end), {0: 0, 1: 0, 2: 0}) == {0: 40, 1: 7, 2: 0}


def test_offsets_deleted_by_retention_are_rejected() -> None:
    with pytest.raises(LogError) as refused:
        starts(dict(RECORD.end), {0: 60, 1: 0})

    assert str(refused.value).startswith(
        "Topic flights, partition 0: expected offset 40, log starts at 60: 20 offsets are gone."
    )
    assert "`cutover accept-loss clicks`" in str(refused.value)
    assert refused.value.runbook == "LogDataLost"


def test_one_message_names_every_partition_with_a_loss() -> None:
    with pytest.raises(LogError) as refused:
        starts(dict(RECORD.end), {0: 60, 2: 4}, {0: 90, 2: 9})

    assert str(refused.value).splitlines()[0] == (
        "Topic flights, partition 0: expected offset 40, log starts at 60: 20 offsets are gone; partition 1: expected "
        "offset 7, is not there; partition 2: expected offset 0, log starts at 4: 4 offsets are gone."
    )


def test_log_that_ends_before_the_start_is_rejected() -> None:
    with pytest.raises(LogError, match="partition 1: expected offset 7, log ends at 5: 2 offsets are gone"):
        starts(dict(RECORD.end), {0: 0, 1: 0}, {0: 90, 1: 5})


def test_another_topic_id_is_another_log() -> None:
    with pytest.raises(LogError, match="Topic flights has topic id B, the epoch log was built from A") as refused:
        start_offsets.reject_other(FLIGHTS, "A", "B")

    assert refused.value.runbook == "TopicIdentityChanged"


@pytest.mark.parametrize("name", ["overflow_rows", "fold_every", "reload_every"])
def test_setting_below_one_is_rejected(settings: Settings, name: str) -> None:
    unsafe = settings.model_copy(update={"stream": StreamSettings().model_copy(update={name: 0})})

    with pytest.raises(DefinitionError, match=f"stream.{name}`: expected 1 or more, got `0`"):
        start_offsets.reject_unsafe(PipelineLake(unsafe, rig.pipeline("flights")))
