"""Watermarks of a followed job, which are its own: those of its newest partition, of the batch itself, or none."""

from dataclasses import replace

import pytest

from cutover.definition import Delta, SparkStream
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.reconcile.verify.facts.facts import Finals
from cutover.reconcile.verify.invariants import published_results
from tests.unit.verify.epochs import MINUTE, chain_of
from tests.unit.verify.facts_of import PIPELINE, facts, texts

STREAM = SparkStream(table=Delta("/data/table"), checkpoint="/data/checkpoint", output_mode="append")
FINALS = Finals(version=1, epoch=1, windows=3, changed_windows=(0,))

AHEAD = [replace(record, max_event={0: 0, 1: 60 * MINUTE}) for record in chain_of(3)]
"""The watermark is beyond what the slowest partition allows."""

BY_ITS_OWN = [replace(record, watermark_before=record.watermark_after) for record in AHEAD]
TICKING = [*BY_ITS_OWN[:2], replace(AHEAD[2], tick=True)]
NEVER = [replace(record, watermark_before=None) for record in AHEAD]
BACK = [*NEVER[:2], replace(NEVER[2], watermark_after=MINUTE)]


@pytest.mark.parametrize(
    ("records", "single", "expected"),
    [
        (AHEAD, False, ""),
        (AHEAD, True, "expected to use watermark"),
        (BY_ITS_OWN, True, ""),
        (TICKING, True, ""),
        (BY_ITS_OWN, False, "expected to use watermark"),
        (NEVER, False, ""),
        (BACK, False, "expected not before"),
    ],
)
def test_each_epoch_is_judged_by_the_watermark_of_the_job(
    records: list[EpochRecord], single: bool, expected: str
) -> None:
    pipeline = replace(PIPELINE, stream=replace(STREAM, single_watermark=single))
    violations = texts(published_results.MONOTONICITY.check(facts(pipeline=pipeline, records=tuple(records))))

    assert expected in violations
    assert bool(violations) is bool(expected)


@pytest.mark.parametrize(("records", "is_final"), [(AHEAD, True), (NEVER, False)])
def test_a_job_that_drops_nothing_has_no_final_windows(records: list[EpochRecord], is_final: bool) -> None:
    pipeline = replace(PIPELINE, stream=STREAM)
    violations = published_results.MONOTONICITY.check(facts(pipeline=pipeline, records=tuple(records), finals=FINALS))

    assert bool(texts(violations)) is is_final
