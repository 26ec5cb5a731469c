"""Telling of a run: in order, from a thread of its own, and never in the way of the run."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest
from requests import HTTPError, Response
from structlog.testing import capture_logs

from cutover.lineage import datasets, runs
from cutover.lineage.listener import describe_trouble
from cutover.lineage.runs import LineageRun, Touched, tell_run
from cutover.settings import KafkaSettings, LineageSettings, Settings


class Listener:
    """Keeps what it is sent; `trouble` is raised instead while it is set, and it waits for `free`."""

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
        return [one.eventType.value for one in self.taken]


@pytest.fixture
def listener(monkeypatch: pytest.MonkeyPatch) -> Iterator[Listener]:
    found = Listener()
    monkeypatch.setattr(runs, "connect", lambda _: found)
    yield found
    found.free.set()


@pytest.fixture
def wanted(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path, lineage=LineageSettings(file=tmp_path / "events"))


def fail() -> NoReturn:
    message = "a lake that cannot be read"
    raise OSError(message)


def test_a_run_begins_and_ends(wanted: Settings, listener: Listener) -> None:
    with tell_run(LineageRun(wanted, "clicks", "batch"), lambda: Touched(facets={"epoch": 7})):
        pass

    assert listener.states == ["START", "COMPLETE"]
    assert listener.taken[1].run.facets["cutover_result"].epoch == 7
    assert (listener.taken[0].job.namespace, listener.taken[0].job.name) == ("cutover", "clicks.batch")


@pytest.mark.parametrize(("error", "state"), [(ValueError(), "FAIL"), (KeyboardInterrupt(), "ABORT")])
def test_an_end_by_an_error_is_told(wanted: Settings, listener: Listener, error: BaseException, state: str) -> None:
    with pytest.raises(type(error)), tell_run(LineageRun(wanted, "clicks", "batch"), Touched):
        raise error

    assert listener.states == ["START", state]


def test_an_end_is_told_though_nobody_knows_what_was_touched(wanted: Settings, listener: Listener) -> None:
    with pytest.raises(OSError, match="cannot be read"), tell_run(LineageRun(wanted, "clicks", "batch"), fail):
        fail()

    assert listener.states == ["START", "FAIL"]


def test_a_listener_that_hangs_holds_no_run_up(
    wanted: Settings, listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "PATIENCE", 0.01)
    listener.free.clear()
    run = LineageRun(wanted, "clicks", "stream")

    with capture_logs() as logged:
        for _ in range(3 * runs.WAITING):
            run.tell("RUNNING")
        run.tell("COMPLETE")

    assert [one["event"] for one in logged] == ["lineage_not_sent"]


def test_trouble_is_said_once_until_something_is_sent_again(wanted: Settings, listener: Listener) -> None:
    with capture_logs() as logged:
        run = LineageRun(wanted, "clicks", "stream")
        for state, trouble in (
            ("START", OSError()),
            ("RUNNING", OSError()),
            ("RUNNING", None),
            ("COMPLETE", OSError()),
        ):
            listener.trouble = trouble
            run.tell(state)  # type: ignore[arg-type]  # each is a state
            run._events.join()

    assert listener.states == ["RUNNING"]
    assert [one["error"] for one in logged] == ["OSError", "OSError"]


def test_a_client_that_is_not_installed_ends_nothing(wanted: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(_: LineageSettings) -> NoReturn:
        raise ImportError

    monkeypatch.setattr(runs, "connect", connect)

    with capture_logs() as logged, tell_run(LineageRun(wanted, "clicks", "batch"), Touched):
        pass

    assert [one["error"] for one in logged] == ["ImportError"]


def test_no_word_of_an_error_is_logged_since_it_may_hold_a_password() -> None:
    answer = Response()
    answer.status_code = 401

    trouble = describe_trouble(HTTPError("401 for url: http://bob:SECRET@host/api", response=answer))

    assert trouble == "HTTPError, status 401"


def test_nobody_listens_unless_somebody_is_named(tmp_path: Path, listener: Listener) -> None:
    with tell_run(LineageRun(Settings(home=tmp_path), "clicks", "batch"), fail):
        pass

    assert listener.taken == []


@pytest.mark.parametrize("by", ["settings", "broker of the installation"])
def test_a_topic_is_named_by_the_broker_that_is_in_force(tmp_path: Path, by: str) -> None:
    settings = Settings(home=tmp_path, kafka=KafkaSettings(bootstrap_servers="a:1,b:2" if by == "settings" else None))
    settings.run_dir.mkdir(parents=True)
    (settings.run_dir / "broker.json").write_text(json.dumps({"bootstrap_servers": "a:1"}))

    (found,) = datasets.topics(settings, "clicks", "T", "C", {0: (3, 9), 1: (None, 4)})

    facets = found.inputFacets
    assert (found.namespace, found.name) == ("kafka://a:1", "clicks")
    assert facets is not None
    assert facets["cutover_offsets"].ranges == [  # type: ignore[attr-defined]  # of our own facet
        {"partition": 0, "from": 3, "to": 9},
        {"partition": 1, "to": 4},
    ]


def test_a_join_names_both_topics_with_their_own_partitions(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, kafka=KafkaSettings(bootstrap_servers="a:1"))

    found = list(datasets.topics(settings, "l,r", "L,R", "C", {0: (0, 1), 1_000_002: (0, 5)}))

    sent = [(one.name, one.inputFacets["cutover_offsets"]) for one in found if one.inputFacets]
    assert [(name, facet.topicId, facet.ranges) for name, facet in sent] == [  # type: ignore[attr-defined]
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
    input_dataset = datasets.table_read(uri, 4)

    assert (input_dataset.namespace, input_dataset.name) == expected
    assert input_dataset.facets is not None
    assert input_dataset.facets["version"].datasetVersion == "4"  # type: ignore[attr-defined]  # of OpenLineage's facet
