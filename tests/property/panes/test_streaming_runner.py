"""Drawn scenarios on the streaming path, through a real topic, query and table, against the reference."""

from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from cutover.definition import Accumulation, AfterCount, Avg, Repeat, Sessions
from cutover.panes import reference
from cutover.panes.model import InputRow, Setting
from cutover.settings import Settings
from cutover.streaming.simulation.runner import run_with
from tests.property.panes.test_panes import ANY
from tests.support.pages.capabilities import note_setting
from tests.support.suite.depth import depth

SETTINGS = st.sampled_from(Accumulation).flatmap(ANY.settings)
SECOND = 1_000_000


@depth(3, 60)
@given(setting=SETTINGS)
def test_streaming_runner_gives_what_the_reference_gives(
    kafka_settings: Settings,
    spark: SparkSession,  # noqa: ARG001 -- the session that runs share
    setting: Setting,
) -> None:
    assert reference.run(setting) == run_with(kafka_settings, setting)
    note_setting(setting, "reference", "streaming")


def test_keys_and_numbers_of_any_kind_come_back_as_they_were(
    kafka_settings: Settings,
    spark: SparkSession,  # noqa: ARG001 -- the session that runs share
) -> None:
    keys = [None, "", "None", "10", 10, -2, "a b", "\N{SNOWMAN}\"'\\", "null"]
    values = [Decimal("0.125"), -3, None, 10**20, Decimal("-7.50")]
    rows = tuple(
        InputRow(
            event_time=second * SECOND - 5_000_001,
            processing_time=second * SECOND,
            key=keys[second % len(keys)],
            columns={"clicks": values[second % len(values)]},
        )
        for second in range(2 * len(keys))
    )
    setting = Setting(
        rows=rows,
        measure=Avg("clicks"),
        window=Sessions("20 seconds"),
        trigger=Repeat(AfterCount(1)),
        accumulation=Accumulation.RETRACTING,
    )

    assert reference.run(setting) == run_with(kafka_settings, setting)
