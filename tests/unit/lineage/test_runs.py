"""Lineage events of a run: in order, from a separate thread, and never blocking the run."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest
from requests import HTTPError, Response
from structlog.testing import capture_logs

from cutover.lineage import datasets, runs
from cutover.lineage.runs import LineageRun, RunDatasets, describe_failure, track_run
from cutover.settings import KafkaSettings, LineageSettings, Settings


class Listener:
    """Records emitted events; raises `trouble` instead while it is set, and waits for `free`."""

    def __init__(self) -> None:
        self.taken: list[Any] = []
        self.trouble: Exception | None = None
        self.free = threading.Event()
        self.free.set()

    def emit(self, event: Any) -> None:
        self.free.wait(30)
        if self.trouble is not None:
            raise self.trouble
        self.taken.append(event)

    @property
    def states(self) -> list[str]:
        return [event.eventType.value for event in self.taken]


@pytest.fixture
def listener(monkeypatch: pytest.MonkeyPatch) -> Iterator[Listener]:
    fake = Listener()
    monkeypatch.setattr(runs, "make_client", lambda _: fake)
    yield fake
    fake.free.set()


@pytest.fixture
def reporting(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path, lineage=LineageSettings(file=tmp_path / "events"))


def fail() -> NoReturn:
    message = "a lake that cannot be read"
    raise OSError(message)


def test_a_run_begins_and_ends(reporting: Settings, listener: Listener) -> None:
    with track_run(LineageRun(reporting, "clicks", "batch"), lambda: RunDatasets(facets={"epoch": 7})):
        pass

    assert listener.states == ["START", "COMPLETE"]
    assert listener.taken[1].run.facets["cutover_result"].epoch == 7
    assert (listener.taken[0].job.namespace, listener.taken[0].job.name) == ("cutover", "clicks.batch")


@pytest.mark.parametrize(("error", "state"), [(ValueError(), "FAIL"), (KeyboardInterrupt(), "ABORT")])
def test_a_failed_run_is_reported(reporting: Settings, listener: Listener, error: BaseException, state: str) -> None:
    with pytest.raises(type(error)), track_run(LineageRun(reporting, "clicks", "batch"), RunDatasets):
        raise error

    assert listener.states == ["START", state]


def test_a_failed_run_is_reported_without_known_datasets(reporting: Settings, listener: Listener) -> None:
    with pytest.raises(OSError, match="cannot be read"), track_run(LineageRun(reporting, "clicks", "batch"), fail):
        fail()

    assert listener.states == ["START", "FAIL"]


def test_a_hanging_listener_blocks_no_run(
    reporting: Settings, listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "FLUSH_SECONDS", 0.01)
    listener.free.clear()
    run = LineageRun(reporting, "clicks", "stream")

    with capture_logs() as logged:
        for _ in range(3 * runs.MAX_PENDING):
            run.emit("RUNNING")
        run.emit("COMPLETE")

    assert [entry["event"] for entry in logged] == ["lineage_not_sent"]


def test_a_failure_is_logged_once_until_an_event_is_sent(reporting: Settings, listener: Listener) -> None:
    with capture_logs() as logged:
        run = LineageRun(reporting, "clicks", "stream")
        for state, trouble in (
            ("START", OSError()),
            ("RUNNING", OSError()),
            ("RUNNING", None),
            ("COMPLETE", OSError()),
        ):
            listener.trouble = trouble
            run.emit(state)  # type: ignore[arg-type]  # each is a state
            run._events.join()

    assert listener.states == ["RUNNING"]
    assert [entry["error"] for entry in logged] == ["OSError", "OSError"]


def test_a_missing_client_does_not_stop_a_run(reporting: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(_: LineageSettings) -> NoReturn:
        raise ImportError

    monkeypatch.setattr(runs, "make_client", connect)

    with capture_logs() as logged, track_run(LineageRun(reporting, "clicks", "batch"), RunDatasets):
        pass

    assert [entry["error"] for entry in logged] == ["ImportError"]


def test_error_text_is_never_logged_since_it_may_contain_a_password() -> None:
    answer = Response()
    answer.status_code = 401

    trouble = describe_failure(HTTPError("401 for url: http://bob:SECRET@host/api", response=answer))

    assert trouble == "HTTPError, status 401"


def test_no_listener_is_connected_unless_one_is_configured(tmp_path: Path, listener: Listener) -> None:
    with track_run(LineageRun(Settings(home=tmp_path), "clicks", "batch"), fail):
        pass

    assert listener.taken == []


@pytest.mark.parametrize("by", ["settings", "broker of the installation"])
def test_a_topic_is_named_by_the_current_broker(tmp_path: Path, by: str) -> None:
    settings = Settings(home=tmp_path, kafka=KafkaSettings(bootstrap_servers="a:1,b:2" if by == "settings" else None))
    settings.run_dir.mkdir(parents=True)
    (settings.run_dir / "broker.json").write_text(json.dumps({"bootstrap_servers": "a:1"}))

    (dataset,) = datasets.make_input_topics(settings, "clicks", "T", "C", {0: (3, 9), 1: (None, 4)})

    facets = dataset.inputFacets
    assert (dataset.namespace, dataset.name) == ("kafka://a:1", "clicks")
    assert facets is not None
    assert facets["cutover_offsets"].ranges == [  # type: ignore[attr-defined]  # of our own facet
        {"partition": 0, "from": 3, "to": 9},
        {"partition": 1, "to": 4},
    ]


def test_a_join_names_both_topics_with_their_own_partitions(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, kafka=KafkaSettings(bootstrap_servers="a:1"))

    inputs = list(datasets.make_input_topics(settings, "l,r", "L,R", "C", {0: (0, 1), 1_000_002: (0, 5)}))

    topics = [(dataset.name, dataset.inputFacets["cutover_offsets"]) for dataset in inputs if dataset.inputFacets]
    assert [(name, facet.topicId, facet.ranges) for name, facet in topics] == [  # type: ignore[attr-defined]
        ("l", "L", [{"partition": 0, "from": 0, "to": 1}]),
        ("r", "R", [{"partition": 2, "from": 0, "to": 5}]),
    ]


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("/lake/t", ("file", "/lake/t")),
        ("file:///lake/t", ("file", "/lake/t")),
        ("s3://bucket/lake/t", ("s3://bucket", "lake/t")),
    ],
)
def test_a_table_is_named_by_its_store(uri: str, expected: tuple[str, str]) -> None:
    input_dataset = datasets.make_input_table(uri, 4)

    assert (input_dataset.namespace, input_dataset.name) == expected
    assert input_dataset.facets is not None
    assert input_dataset.facets["version"].datasetVersion == "4"  # type: ignore[attr-defined]  # of OpenLineage's facet
