"""A file whose first records would all be malformed: nothing is sent unless it is confirmed."""

from collections.abc import Callable
from pathlib import Path

import pytest

from cutover.clock import SystemClock
from cutover.definition import Count, Fixed, Pipeline, Topic
from cutover.errors import DefinitionError, InterruptedRunError
from cutover.log.cut import LogId
from cutover.log.kafka import LogClient
from cutover.pipeline_lake import PipelineLake
from cutover.records.sending import produce as sending
from cutover.records.sending.produce import Progress, Request, Summary, produce
from cutover.records.sending.transmit import Target
from cutover.settings import KafkaSettings, Settings

SOURCE = Topic(name="orders", schema="at timestamp, i int", event_time="at", time_format="seconds")
PIPELINE = Pipeline(name="p", source=SOURCE, key=("i",), window=Fixed(hours=1), measures={"n": Count()})
LOG = LogId(cluster_id="c", topic="orders", topic_id="t")
SILENT = Progress(on_read=lambda _: None, on_total=lambda _: None, on_sent=lambda _: None)

Send = Callable[..., Summary]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "orders.csv"


@pytest.fixture
def send(file: Path, monkeypatch: pytest.MonkeyPatch) -> Send:
    """Return a function that writes the cells of a column to a file and sends it to a topic without a broker."""
    settings = Settings(home=file.parent, kafka=KafkaSettings(bootstrap_servers="127.0.0.1:1"))
    monkeypatch.setattr(sending, "find_topic", lambda *_: LOG)
    monkeypatch.setattr(sending, "find_delivered", lambda _client, _log, runs: {run.run: {0} for run in runs})
    monkeypatch.setattr(sending, "prepare_topic", lambda *_: Target(log=LOG, max_bytes=1_000_000))
    monkeypatch.setattr(sending, "send_records", lambda *_: None)
    monkeypatch.setattr(LogClient, "high_watermarks", lambda *_: {0: 0})

    def write_and_send(*cells: str, confirm: bool = False) -> Summary:
        file.write_text("at,i\n" + "".join(f"{n},{cell}\n" for n, cell in enumerate(cells, 1_357_000_000)))
        request = Request(file=file, confirm=confirm)
        return produce(PipelineLake(settings, PIPELINE), request, clock=SystemClock(), progress=SILENT)

    return write_and_send


@pytest.mark.parametrize(
    ("cells", "part"),
    [
        (["x"], "each of 1 record "),
        (["x"] * 40, "each of 40 records "),
        (["x"] * 1_000 + ["1"], "each of the first 1,000 of 1,001 records "),
    ],
)
def test_a_file_whose_first_records_are_malformed_is_rejected_until_confirmed(
    send: Send, cells: list[str], part: str
) -> None:
    with pytest.raises(DefinitionError) as caught:
        send(*cells)

    assert caught.value.exit_code == 2
    for fact in (part, "(type)", "line 2, column `i`", 'got "x"', "`--confirm`"):
        assert fact in str(caught.value)
    assert send(*cells, confirm=True).malformed == cells.count("x")


@pytest.mark.parametrize("cells", [["1"], ["x"] * 39 + ["1"], ["x"] * 999 + ["1"] + ["x"] * 50])
def test_a_file_with_a_well_formed_record_among_the_first_is_sent(send: Send, cells: list[str]) -> None:
    assert send(*cells).malformed == cells.count("x")


def test_malformed_records_at_the_end_of_a_file_that_has_grown_are_rejected(send: Send) -> None:
    send("1", "2")

    with pytest.raises(DefinitionError, match="each of 10 records would be malformed"):
        send("1", "2", *"x" * 10)
    assert send("1", "2", "x", "y").records == 2


def test_an_interrupted_run_is_resumed_although_its_remaining_records_are_malformed(
    send: Send, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        msg = "after the first record"
        raise InterruptedRunError(msg)

    with monkeypatch.context() as patch:
        patch.setattr(sending, "send_records", interrupt)
        with pytest.raises(InterruptedRunError):
            send("1", "x")

    assert send("1", "x").malformed == 1
