from pathlib import Path

import pytest
from confluent_kafka import KafkaError

from tests.faults.running.producer import Outcome, Report, record
from tests.integration.streaming.rig import Event


@pytest.mark.parametrize(
    ("offset", "error", "forced_outcome", "expected"),
    [
        pytest.param(7, None, None, "acked", id="taken"),
        pytest.param(7, None, "aborted", "aborted", id="taken, and its transaction aborted"),
        pytest.param(None, None, None, "unknown", id="the log had it already, at an unknown offset"),
        pytest.param(None, KafkaError._MSG_TIMED_OUT, None, "unknown", id="no answer"),
        pytest.param(None, KafkaError.MSG_SIZE_TOO_LARGE, None, "failed", id="refused"),
    ],
)
def test_a_record_is_acked_only_if_the_log_names_its_offset(
    tmp_path: Path, offset: int | None, error: int | None, forced_outcome: Outcome | None, expected: str
) -> None:
    report = Report(event=Event(id=1), partition=0, offset=offset, error=None if error is None else KafkaError(error))

    rows = record(tmp_path / "oracle", "t", [report], lambda _: ("accepted", 0, ("a",)), forced_outcome)

    assert [row.outcome for row in rows] == [expected]
