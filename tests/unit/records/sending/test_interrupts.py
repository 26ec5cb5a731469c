"""Ctrl-C in `produce`: exit code 130, and one sentence on what was sent and how to resume."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import repeat

import pytest
from confluent_kafka import KafkaError

from cutover.cli import app
from cutover.errors import InterruptedRunError, LogError
from cutover.log.cut import LogId
from cutover.log.kafka import LogClient
from cutover.records.sending import transmit
from cutover.records.sending.produce import explain_interrupt
from cutover.records.sending.rows import FileRecord
from cutover.records.sending.transmit import Target, send_records
from cutover.settings import Settings

TARGET = Target(log=LogId(cluster_id="c", topic="orders", topic_id="t"), max_bytes=1_000_000)
RECORD = FileRecord(value=b"{}", key=None, line=2, log_micros=None, number=0)


class FakeProducer:
    """Fake producer that acknowledges all messages, or all but the newest ones, on flush."""

    unanswered = 0

    def __init__(self, _options: object) -> None:
        self.deliveries: list[Callable[[object, object], None]] = []

    def produce(self, _topic: str, *, on_delivery: Callable[[object, object], None], **_message: object) -> None:
        self.deliveries.append(on_delivery)

    def poll(self, _seconds: float) -> int:
        return 0

    def purge(self, **_options: bool) -> None:
        self.deliveries.clear()

    def flush(self, _seconds: float) -> int:
        for deliver in self.deliveries[: len(self.deliveries) - self.unanswered]:
            deliver(None, None)
        return self.unanswered


def interrupt_after(count: int) -> Iterator[FileRecord]:
    yield from repeat(RECORD, count)
    raise KeyboardInterrupt


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> LogClient:
    monkeypatch.setattr(transmit, "Producer", FakeProducer)
    monkeypatch.setattr(FakeProducer, "unanswered", 0)
    monkeypatch.setattr(LogClient, "partitions", lambda *_: (0, 1))
    monkeypatch.setattr(LogClient, "bootstrap", "127.0.0.1:1", raising=False)
    return LogClient.__new__(LogClient)


@pytest.mark.parametrize(
    ("sent_count", "unanswered", "fragment"),
    [(1_500, 0, ": 1,500 records"), (1_500, 10, ": at least 1,490 records"), (0, 0, ": 0 records")],
)
def test_an_interrupt_reports_sent_records_and_how_to_resume(
    client: LogClient, monkeypatch: pytest.MonkeyPatch, sent_count: int, unanswered: int, fragment: str
) -> None:
    monkeypatch.setattr(FakeProducer, "unanswered", unanswered)

    with pytest.raises(InterruptedRunError) as caught:
        send_records(Settings(), client, TARGET, "r", interrupt_after(sent_count), lambda _: None)

    text = str(caught.value)
    assert fragment in text
    assert "topic `orders`" in text
    assert "the same command without `--again`" in text
    assert "\n" not in text


def test_an_interrupt_before_the_first_record_reports_that_nothing_was_sent() -> None:
    with pytest.raises(InterruptedRunError, match="before a record was sent"), explain_interrupt():
        raise KeyboardInterrupt


def test_an_explained_interrupt_exits_with_130_and_its_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def build_app(_: str | None) -> object:
        def run(**_: object) -> int:
            with explain_interrupt():
                raise KeyboardInterrupt

        return run

    monkeypatch.setattr(app, "build_app", build_app)

    assert app.main(["produce"]) == app.INTERRUPTED
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize("is_paced", [False, True])
def test_a_record_that_becomes_too_old_while_sending_stops_the_run(
    client: LogClient, monkeypatch: pytest.MonkeyPatch, *, is_paced: bool
) -> None:
    target = replace(TARGET, config={"message.timestamp.before.max.ms": "60000"})
    sent_lines: list[int] = []

    def rows() -> Iterator[FileRecord | None]:
        for line in (2, 3, 4):
            sent_lines.append(line)
            yield replace(RECORD, line=line, log_micros=1_000_000)
            yield from [None] * is_paced

    def reject(producer: FakeProducer, _seconds: float) -> int:
        if len(producer.deliveries) == 2:
            error = KafkaError(KafkaError.INVALID_TIMESTAMP)
            other_error = KafkaError(KafkaError._INVALID_DIFFERENT_RECORD)
            for deliver, cause in zip(producer.deliveries, (other_error, error), strict=True):
                deliver(cause, None)
        return 0

    monkeypatch.setattr(FakeProducer, "poll", reject)

    with pytest.raises(LogError, match=r"message\.timestamp\.before\.max\.ms=60,000") as caught:
        send_records(Settings(), client, target, "r", rows(), lambda _: None)
    assert "1970-01-01T00:00:01Z" in str(caught.value)
    assert "(line 3 of the file)" in str(caught.value)
    assert sent_lines == ([2, 3] if is_paced else [2, 3, 4])
