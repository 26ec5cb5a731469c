import threading
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from cutover.batch.recompute import recompute_windows
from cutover.clock import Point
from cutover.definition import Expect
from cutover.definition.checks.contract import list_arguments, list_expectation_types
from cutover.errors import ContractError, DefinitionError
from cutover.lake.batch_runs import read_effective_runs
from cutover.lake.tables import delta
from cutover.pipeline_lake import PipelineLake
from tests.integration.batch.lab import BASE, HOUR, Lab


class StoppedError(Exception):
    pass


@pytest.mark.parametrize("stop", ["batch.read", "batch.written", "batch.committed"])
def test_stopped_at_a_point_the_next_run_gives_the_same_table(lab: Lab, stop: str) -> None:
    lab.send((0, 10, "AA", 5), (1, 20, "AA", 7), (1, 30, "XX", 0))
    lab.commit_epoch(watermark=3_600)

    def fail(point: Point, epoch: int) -> None:  # noqa: ARG001 -- the protocol's names
        if point == stop:
            raise StoppedError

    with pytest.raises(StoppedError):
        recompute_windows(lab.lake, probe=fail)

    batch_run = recompute_windows(lab.lake)

    assert batch_run is not None
    assert lab.table(batch_run, "flights", "delay") == [(0, 2, 12)]
    assert [row["_n"] for row in lab.rows("batch_ledger", batch_run.ledger_version)] == [1]


@pytest.mark.quick
def test_a_critical_expectation_that_fails_publishes_nothing(lab: Lab) -> None:
    lab.send((0, 10, "AA", 5))
    lab.commit_epoch(watermark=3_600)
    limits = {"column": "delay", "max_value": 4}
    strict = replace(lab.pipeline, contract=(Expect(type="expect_column_values_to_be_between", arguments=limits),))

    lake = PipelineLake(lab.settings, strict)
    with pytest.raises(ContractError, match=r"expect_column_values_to_be_between(.|\n)*1 unexpected of 1") as failure:
        recompute_windows(lake)

    assert failure.value.runbook == "ContractFailed"
    assert read_effective_runs(lake) == []
    assert not delta.exists(lake.batch_uri())


def test_a_warning_that_fails_is_recorded_and_published(lab: Lab) -> None:
    lab.send((0, 10, "AA", 5), (0, 20, "UA", None))
    lab.commit_epoch(watermark=3_600)
    contract = (
        Expect(
            type="expect_column_max_to_be_between", arguments={"column": "worst", "max_value": 4}, severity="warning"
        ),
        Expect(type="expect_column_values_to_not_be_null", arguments={"column": "flights"}),
    )

    batch_run = recompute_windows(PipelineLake(lab.settings, replace(lab.pipeline, contract=contract)))

    assert batch_run is not None
    assert [(result.severity, result.success) for result in batch_run.contract] == [
        ("warning", False),
        ("critical", True),
    ]
    assert batch_run.contract[0].observed == "5"
    assert lab.table(batch_run, "flights") == [(0, 1), (0, 1)]


def test_arguments_that_an_expectation_does_not_take_are_refused(lab: Lab) -> None:
    lab.send((0, 10, "AA", 5))
    lab.commit_epoch(watermark=3_600)
    contract = (Expect(type="expect_column_max_to_be_between", arguments={"miracles": 5}),)

    with pytest.raises(DefinitionError, match=r"does not take .'miracles': 5."):
        recompute_windows(PipelineLake(lab.settings, replace(lab.pipeline, contract=contract)))


def test_definitions_may_name_every_type_and_argument_that_great_expectations_has() -> None:
    import great_expectations.expectations as gxe  # noqa: PLC0415 -- the import costs seconds

    expectation_types = {
        name.lower(): expectation
        for name, expectation in vars(gxe).items()
        if name.startswith("Expect") and name != "Expectation"
    }
    arguments_by_name = {
        name: tuple(sorted({*expectation.__fields__} - {"severity", "library_metadata"}))
        for name, expectation in expectation_types.items()
    }

    assert {name.replace("_", ""): list_arguments(name) for name in list_expectation_types()} == arguments_by_name


def test_of_two_runs_at_once_one_waits_and_finds_nothing_to_do(lab: Lab) -> None:
    lab.send((0, 10, "AA", 5))
    lab.commit_epoch(watermark=3_600)
    overlapping = threading.Event()
    second: list[threading.Thread] = []

    def start_another(point: Point, epoch: int) -> None:  # noqa: ARG001 -- the protocol's names
        if point == "batch.read":
            second.append(threading.Thread(target=recompute_windows, args=(lab.lake,)))
            second[0].start()
            overlapping.set()

    recompute_windows(lab.lake, probe=start_another)
    second[0].join(120)

    assert overlapping.is_set()
    first_run, second_run = read_effective_runs(lab.lake)
    assert (len(first_run.computed), second_run.computed) == (1, ())
    assert lab.table(second_run, "flights") == [(0, 1)]


@pytest.mark.quick
def test_a_wanted_range_is_computed_again_and_a_row_too_many_is_cleared(lab: Lab) -> None:
    lab.send((0, 10, "AA", 5), (0, 3 * HOUR, "AA", 1))
    lab.commit_epoch(watermark=4 * HOUR)
    first_batch_run = recompute_windows(lab.lake)
    assert first_batch_run is not None
    lab.plant(hour=0, like=first_batch_run)
    lab.plant(hour=1, like=first_batch_run)
    start, end = (datetime.fromtimestamp(BASE + hour * HOUR, UTC) for hour in (0, 4))

    batch_run = recompute_windows(lab.lake, start=start, end=end)

    assert lab.table(batch_run, "carrier", "flights") == lab.table(first_batch_run, "carrier", "flights")
