import pytest

from cutover.errors import DefinitionError, LogError
from cutover.lake.epochs import EpochRecord
from cutover.settings import Settings, Stream
from streaming import start
from tests.integration.streaming import rig

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


def test_first_start_begins_where_the_log_begins() -> None:
    assert start.start_offsets("flights", None, earliest={0: 3, 1: 0}, latest={0: 9, 1: 0}) == {0: 3, 1: 0}


def test_start_is_the_end_of_the_newest_epoch() -> None:
    assert start.start_offsets("flights", RECORD, earliest={0: 0, 1: 7}, latest={0: 40, 1: 9}) == {0: 40, 1: 7}


def test_new_partition_starts_at_zero() -> None:
    found = start.start_offsets("flights", RECORD, earliest={0: 0, 1: 0, 2: 0}, latest={0: 50, 1: 9, 2: 5})

    assert found == {0: 40, 1: 7, 2: 0}


def test_offsets_that_retention_took_are_refused() -> None:
    with pytest.raises(LogError) as refused:
        start.start_offsets("flights", RECORD, earliest={0: 60, 1: 0}, latest={0: 90, 1: 9})

    assert str(refused.value).startswith(
        "Topic flights, partition 0: expected offset 40, log starts at 60: 20 offsets are gone."
    )
    assert refused.value.runbook == "LogDataLost"


def test_log_that_ends_before_the_start_is_refused() -> None:
    with pytest.raises(LogError, match="partition 1: expected offset 7, log ends at 5: 2 offsets are gone"):
        start.start_offsets("flights", RECORD, earliest={0: 0, 1: 0}, latest={0: 90, 1: 5})


def test_new_partition_that_lost_its_beginning_is_refused() -> None:
    with pytest.raises(LogError, match="partition 2: expected offset 0, log starts at 4"):
        start.start_offsets("flights", RECORD, earliest={0: 0, 1: 0, 2: 4}, latest={0: 90, 1: 9, 2: 9})


def test_another_topic_id_is_another_log() -> None:
    with pytest.raises(LogError, match="Topic flights has topic id B, the epoch log was built from A") as refused:
        start.same_log("flights", "A", "B")

    assert refused.value.runbook == "TopicIdentityChanged"


@pytest.mark.parametrize("name", ["overflow_rows", "fold_every", "reload_every"])
def test_pace_below_one_is_refused(settings: Settings, name: str) -> None:
    changed = settings.model_copy(update={"stream": Stream().model_copy(update={name: 0})})

    with pytest.raises(DefinitionError, match=f"stream.{name}`: expected 1 or more, got `0`"):
        start.refuse_unsafe(changed, rig.pipeline("flights"))
