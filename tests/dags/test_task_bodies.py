"""Messages and announcements of the tasks: pure parts as tables, whole runs by `dag.test()` without a server."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException
from cutover_tasks.batch_tasks import batch_arguments, make_asset_extra, skip_empty
from cutover_tasks.check_tasks import list_requests, locate_report, make_label
from cutover_tasks.task_parts import RunRange, fail_without_retries

from cutover.definition.loading import catalogue
from cutover.errors import LogError
from cutover.infra.airflow import instance
from cutover.infra.processes.family import ChildEnd
from cutover.pipeline_lake import PipelineLake
from cutover.settings import Settings, load_settings
from tests.support.history.journal_rows import record_stage

if TYPE_CHECKING:
    from airflow.dag_processing.dagbag import DagBag

FEB_8 = datetime(2013, 2, 8, tzinfo=UTC)
FEB_9 = datetime(2013, 2, 9, tzinfo=UTC)
RUN = {"epoch": 41, "run_id": "r", "batch_version": 3, "cut": {"0": 7}}


class Event:
    """Triggering event, with the fields that requests read."""

    def __init__(self, second: int, extra: dict[str, Any]) -> None:
        self.timestamp, self.extra = datetime(2026, 1, 1, second=second, tzinfo=UTC), extra


def test_range_becomes_words_of_the_command() -> None:
    assert batch_arguments("flights", RunRange(FEB_8, FEB_9))[3:] == [
        "--from",
        "2013-02-08T00:00:00+00:00",
        "--to",
        "2013-02-09T00:00:00+00:00",
    ]
    assert batch_arguments("flights", RunRange()) == ["batch", "flights", "--json"]


def test_good_run_announces_its_cut_and_range() -> None:
    days = [int(day.timestamp()) * 1_000_000 for day in (FEB_8, FEB_9)]

    event = make_asset_extra("flights", ChildEnd(exit_code=0, value={**RUN, "wanted": days}, message=""))

    assert event == {
        "epoch": 41,
        "run_id": "r",
        "batch_version": 3,
        "from": "2013-02-08T00:00:00+00:00",
        "to": "2013-02-09T00:00:00+00:00",
    }


def test_run_that_computed_no_window_of_its_range_is_skipped_with_the_reason() -> None:
    value = {**RUN, "wanted": [0, 1], "nothing_computed": "Nothing was computed: expected a closed window"}

    with pytest.raises(AirflowSkipException, match=r"Nothing was computed: expected a closed window"):
        make_asset_extra("flights", ChildEnd(exit_code=0, value=value, message=""))


def test_refused_run_is_not_tried_again_and_says_why() -> None:
    end = ChildEnd(exit_code=2, value=None, message="Nothing was published.\nRunbook: docs/runbooks/ContractFailed.md")

    with pytest.raises(AirflowFailException, match=r"Nothing was published\.\nRunbook: docs/runbooks/ContractFailed"):
        make_asset_extra("flights", end)


@pytest.mark.parametrize(("code", "value"), [(1, None), (-9, None), (0, None)])
def test_death_that_nobody_expected_is_tried_again(code: int, value: object) -> None:
    with pytest.raises(RuntimeError, match=f"exit code {code}"):
        make_asset_extra("flights", ChildEnd(exit_code=code, value=value, message="killed"))


def test_every_triggering_event_is_a_request_oldest_first() -> None:
    later, sooner = Event(9, {"epoch": 42, "from": None, "to": None}), Event(1, {"epoch": 41, "run_id": "r"})

    assert list_requests([later, sooner], {}) == [
        {"epoch": 41, "from": None, "to": None},
        {"epoch": 42, "from": None, "to": None},
    ]


def test_run_by_hand_is_one_request_from_its_parameters() -> None:
    assert list_requests([], {"epoch": None, "from": "2013-02-08", "to": None}) == [
        {"epoch": None, "from": "2013-02-08", "to": None}
    ]


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        ({"epoch": None, "from": None, "to": None}, "latest cut"),
        ({"epoch": 41, "from": None, "to": None}, "epoch 41"),
        ({"epoch": 41, "from": "2013-02-08", "to": "2013-02-09"}, "epoch 41, 2013-02-08 to 2013-02-09"),
    ],
)
def test_grid_names_a_request(request_: dict[str, Any], expected: str) -> None:
    assert make_label(request_) == expected


def test_report_has_a_web_address_where_one_is_set(tmp_path: Path) -> None:
    assert locate_report(Settings(home=tmp_path), "flights/a.html") == str(tmp_path / "reports" / "flights" / "a.html")
    assert (
        locate_report(Settings(home=tmp_path, report_base_url="https://x/r/"), "flights/a.html")
        == "https://x/r/flights/a.html"
    )


def test_failure_keeps_its_sentence_and_runbook() -> None:
    with (
        pytest.raises(AirflowFailException, match=r"gone\nRunbook: docs/runbooks/LogDataLost\.md"),
        fail_without_retries(),
    ):
        raise LogError("gone", runbook="LogDataLost")  # noqa: EM101 -- the message is the test


def test_batch_is_skipped_in_kappa(bag: "DagBag", home: Path) -> None:
    record_stage(PipelineLake(Settings(home=home), catalogue.get(load_settings(), "flights")), "KAPPA", at=FEB_8)

    run = bag.dags["flights_batch"].test()

    assert {task.task_id: str(task.state) for task in run.get_task_instances()} == {"recompute": "skipped"}


def test_range_of_sessions_fails_the_task_and_announces_nothing(bag: "DagBag", home: Path) -> None:
    instance.turn_on_samples(load_settings(), ["ad_billing"])  # the run parses the folder again, under this home
    run = bag.dags["ad_billing_batch"].test(run_conf={"day": "2013-02-08"})

    (task,) = run.get_task_instances()
    assert home.is_dir()
    assert (str(task.state), str(run.state)) == ("failed", "failed")
    assert task.xcom_pull(task_ids="recompute") is None


def test_day_that_the_zone_left_out_is_skipped_with_the_reason() -> None:
    day = RunRange(FEB_8, FEB_8)

    with pytest.raises(AirflowSkipException, match=r"Nothing was computed: .* is empty"):
        skip_empty("flights", day)
    skip_empty("flights", RunRange(FEB_8, FEB_9))
    skip_empty("flights", RunRange())


def test_failing_verdict_fails_the_task_and_leaves_its_report_as_xcom(bag: "DagBag", home: Path) -> None:
    run = bag.dags["flights_reconcile"].test()

    (task,) = [t for t in run.get_task_instances() if t.task_id == "compare"]
    assert str(task.state) == "failed"
    assert task.xcom_pull(task_ids="compare", key="verdict", map_indexes=0) == "NOT_COMPARABLE"
    report = Path(str(task.xcom_pull(task_ids="compare", key="report", map_indexes=0)))
    assert report.is_file()
    assert report.is_relative_to(home / "reports")
    assert json.loads(report.with_suffix(".json").read_text())["exit_code"] == 2


def test_checks_are_judged_after_a_failing_verdict_and_the_run_stays_red(bag: "DagBag", home: Path) -> None:
    run = bag.dags["flights_reconcile"].test()

    states = {task.task_id: str(task.state) for task in run.get_task_instances()}
    assert home.is_dir()
    assert states == {
        "collect_requests": "success",
        "compare": "failed",
        "verify": "failed",
        "scrub": "success",
        "settle": "upstream_failed",
    }
    assert str(run.state) == "failed"
