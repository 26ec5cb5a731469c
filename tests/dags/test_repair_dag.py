"""The repair DAG: requests and messages of its tasks as tables, and whole runs by `dag.test()` without a server."""

from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException
from cutover_tasks.batch_tasks import DIRTY, collect_starts, parse_repair, publish_windows, repair_arguments

from cutover.infra.processes.family import ChildEnd

if TYPE_CHECKING:
    from pathlib import Path

    from airflow.dag_processing.dagbag import DagBag

NOON, ONE = "2013-02-08T12:00:00+00:00", "2013-02-08T13:00:00+00:00"


@pytest.mark.parametrize(
    ("windows", "expected"),
    [
        ([], [DIRTY]),
        (["  "], [DIRTY]),
        (["2013-02-08T13:00:00Z", "2013-02-08 12:00"], [NOON, ONE]),
        (["2013-02-08T12:00:00Z", "2013-02-08T07:00:00-05:00"], [NOON]),
    ],
)
def test_each_window_is_one_request_in_utc(windows: list[str], expected: list[str]) -> None:
    assert collect_starts("flights", {"windows": windows}) == expected


def test_a_window_that_is_no_time_fails_the_task() -> None:
    with pytest.raises(AirflowFailException, match="expected a time such as"):
        collect_starts("flights", {"windows": ["{{ ds }}"]})


def test_windows_become_words_of_the_command() -> None:
    assert repair_arguments("flights", [NOON, ONE]) == [
        "repair",
        "flights",
        "--window",
        NOON,
        "--window",
        ONE,
        "--json",
    ]
    assert repair_arguments("flights", [DIRTY]) == ["repair", "flights", "--dirty", "--json"]


def test_rows_that_would_change_are_no_failure_and_a_refusal_is_not_tried_again() -> None:
    assert parse_repair("flights", ChildEnd(exit_code=1, value={"would_change": 2}, message="")) == {"would_change": 2}
    with pytest.raises(AirflowFailException, match="past retention"):
        parse_repair("flights", ChildEnd(exit_code=2, value=None, message="past retention"))
    with pytest.raises(RuntimeError, match="exit code -9"):
        parse_repair("flights", ChildEnd(exit_code=-9, value=None, message="killed"))


@pytest.mark.parametrize(
    ("changes", "params", "message"),
    [
        ([0, 0], {"publish": True}, "Nothing would change in 2 windows"),
        ([0, 3], {"publish": False}, "Dry run: 3 rows in 1 window of flights would change"),
        ([0, 3], {}, "Dry run"),
    ],
)
def test_publishing_is_skipped_with_the_reason(changes: list[int], params: dict[str, Any], message: str) -> None:
    previews = [{"window": NOON, "would_change": count} for count in changes]

    with pytest.raises(AirflowSkipException, match=message):
        publish_windows("flights", previews, params)


def test_a_refused_window_is_red_and_nothing_is_published(bag: "DagBag", home: "Path") -> None:
    run = bag.dags["flights_repair"].test(run_conf={"windows": ["2013-02-08T12:00:00Z"], "publish": True})

    states = {task.task_id: str(task.state) for task in run.get_task_instances()}
    assert home.is_dir()
    assert states == {"collect_windows": "success", "preview": "failed", "publish": "upstream_failed"}
