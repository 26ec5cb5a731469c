"""States of the log: it continues, lacks the next records, is a different log, or does not respond."""

from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import Mock

import pytest

from cutover import files
from cutover.definition import Count, Fixed, Pipeline, Topic
from cutover.errors import LakeError, LogError
from cutover.lake.control import losses, versions
from cutover.lake.integrity import same_log
from cutover.lake.journal_rows import Loss
from cutover.lake.tables import delta
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.preconditions import log_state
from cutover.reconcile.preconditions.log_state import LogCheck
from cutover.reconcile.result.finding import SealBreach
from cutover.settings import Settings
from tests.support.log.losses import LOSS
from tests.unit.verify.epochs import epoch

PIPELINE = Pipeline(
    name="clicks",
    source=Topic(name="clicks", schema="at timestamp NOT NULL", event_time="at"),
    key=(),
    window=Fixed(hours=1),
    measures={"clicks": Count()},
)
NEWEST = epoch(2)  # both partitions up to offset 15


@dataclass(frozen=True, kw_only=True)
class Log:
    """Log as seen by a client."""

    id_: str = "topic-1"
    earliest_: tuple[int, int] = (0, 15)
    latest_: tuple[int, int] = (15, 99)
    fails: LogError | None = None
    identity_error: LogError | None = None
    policy: str = "delete"

    def config(self, topic: str) -> dict[str, str]:
        return {"cleanup.policy": self.policy} if topic == "clicks" else {}

    def topic_id(self, topic: str) -> str:
        if self.fails is not None:
            raise self.fails
        return self.id_ if topic == "clicks" else "none"

    def earliest(self, topic: str) -> dict[int, int]:
        return dict(enumerate(self.earliest_)) if topic == "clicks" else {}

    def latest(self, topic: str, isolation: str) -> dict[int, int]:
        return dict(enumerate(self.latest_)) if (topic, isolation) == ("clicks", "read_committed") else {}


@dataclass(kw_only=True)
class Lake:
    """Contents of the lake for the stream."""

    version: object = Mock(uri="u")
    exists: bool = True
    newest: Any = NEWEST
    losses: tuple[Loss, ...] = ()


def fetch_answer(monkeypatch: pytest.MonkeyPatch, settings: Settings, log: Log, lake: Lake | None = None) -> LogCheck:
    """Fetch the answer of a log behind a lake whose driver recorded nothing."""
    fake_lake = lake or Lake()

    def reject_changed(*_: object) -> None:
        if log.identity_error is not None:
            raise log.identity_error

    def newest() -> object:
        if isinstance(fake_lake.newest, Exception):
            raise fake_lake.newest
        return fake_lake.newest

    monkeypatch.setattr(versions, "find_current_version", lambda *_: fake_lake.version)
    monkeypatch.setattr(delta, "exists", lambda _: fake_lake.exists)
    monkeypatch.setattr(log_state, "EpochLog", lambda _: Mock(newest=newest))
    monkeypatch.setattr(losses, "list_of_version", lambda *_: fake_lake.losses)
    monkeypatch.setattr(same_log, "check_log_unchanged", reject_changed)
    monkeypatch.setattr(log_state, "LogClient", lambda _: log)
    return log_state.evaluate_log(PipelineLake(settings, PIPELINE))


def make_changed_answer(message: str, runbook: str) -> LogCheck:
    return LogCheck(breach=SealBreach(code="log_changed", message=message, runbook=runbook))


GONE = "Topic clicks, partition {}: expected offset 15, log {}: 1 offsets are gone."


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (Log(), LogCheck()),
        (Log(latest_=(14, 99)), make_changed_answer(GONE.format(0, "ends at 14"), "LogDataLost")),
        (Log(earliest_=(0, 16)), make_changed_answer(GONE.format(1, "starts at 16"), "LogDataLost")),
        (
            Log(id_="topic-2"),
            make_changed_answer(
                "Topic clicks has topic id topic-2, the epoch log was built from topic-1.", "TopicIdentityChanged"
            ),
        ),
        (
            Log(fails=LogError("Topic clicks: expected one.\nHint: create it.")),
            make_changed_answer("Topic clicks: expected one.", "TopicIdentityChanged"),
        ),
        (
            Log(identity_error=LogError("Rewritten.", runbook="LogDataLost")),
            make_changed_answer("Rewritten.", "LogDataLost"),
        ),
        (
            Log(policy="compact"),
            make_changed_answer("Topic clicks: expected cleanup.policy `delete`, got `compact`.", "LogDataLost"),
        ),
    ],
    ids=["goes on", "ends before", "begins behind", "another topic", "no topic", "rewritten", "compacted"],
)
def test_an_answering_log_is_the_source_of_truth(
    monkeypatch: pytest.MonkeyPatch, settings: Settings, log: Log, expected: LogCheck
) -> None:
    assert fetch_answer(monkeypatch, settings, log) == expected


def test_after_a_recorded_loss_the_log_may_start_later(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:
    loss = replace(LOSS, topic="clicks", topic_id="topic-1", epoch=3, partition=1, first=15, next=20)
    log = Log(earliest_=(0, 20))

    assert fetch_answer(monkeypatch, settings, log).breach is not None
    assert fetch_answer(monkeypatch, settings, log, Lake(losses=(loss,))) == LogCheck()


@pytest.mark.parametrize(
    "lake",
    [
        Lake(version=None),
        Lake(exists=False),
        Lake(newest=None),
        Lake(newest=LakeError("Broken.", runbook="TableUnreadable")),
    ],
    ids=["no version", "no table", "no epoch", "unreadable"],
)
def test_log_is_not_asked_without_an_epoch(monkeypatch: pytest.MonkeyPatch, settings: Settings, lake: Lake) -> None:
    log = Log(fails=LogError("Nobody answers.", runbook="KafkaUnreachable"))

    assert fetch_answer(monkeypatch, settings, log, lake) == LogCheck()


def test_a_silent_log_and_driver_break_the_seal(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:
    silent = LogError("Nobody answers.\nHint: start it.", runbook="KafkaUnreachable")

    assert fetch_answer(monkeypatch, settings, Log(fails=silent)).breach == SealBreach(
        code="log_silent",
        message=(
            "Log of `clicks`: expected it or its driver to confirm that it is the log that both sides read, got"
            " neither: Nobody answers. No driver has written a heartbeat here. Hint: compare again once it answers:"
            " `cutover reconcile clicks`."
        ),
        runbook="NotComparable",
    )


@pytest.mark.parametrize(("sequence", "code"), [(4, "log_changed"), (5, None), (6, None)])
def test_a_loss_accepted_after_the_driver_started_lets_it_continue(
    monkeypatch: pytest.MonkeyPatch, settings: Settings, sequence: int, code: str | None
) -> None:
    at = LOSS.at.isoformat()
    word = {"state": "FAILED", "runbook": "LogDataLost", "error": "Gone.", "at": at, "losses_seen": 5}
    files.write_json(settings.run_dir / "clicks" / "heartbeat.json", word)
    lake = Lake(losses=(replace(LOSS, sequence=sequence),))
    silent = Log(fails=LogError("Nobody answers.", runbook="KafkaUnreachable"))

    breach = fetch_answer(monkeypatch, settings, silent, lake).breach

    assert (None if breach is None else breach.code) == code
