"""What the lake keeps as JSON comes back as the same value, or is refused with the field's name."""

import json
from dataclasses import replace
from typing import Any

import pytest

from cutover import json_text
from cutover.lake.batch_runs import BatchRun, Incomplete
from cutover.lake.dimensions.joined_versions import VersionSpan
from cutover.log.mark import Mark

RUN = BatchRun(
    run_id="r",
    epoch=4,
    stream_version=0,
    topic="t",
    topic_id="i",
    cluster_id="c",
    cut={0: 7, 11: 2**62},
    scanned={0: (0, 7)},
    watermark=None,
    result_fingerprint="f",
    batch_fingerprint="same",
    isolation="read_committed",
    computed=((0, 3_600_000_000),),
    wanted=(0, 3_600_000_000),
    incomplete=(Incomplete(window_start=-1, window_end=0, reason="lost"),),
    marks={0: (Mark(6, 1_000, "abc"),)},
    dimensions={"rates": (VersionSpan(partition=0, first=0, next=7, version=3, table_id="d"),)},
    seconds=1.5,
)


def changed(**fields: Any) -> str:
    return json.dumps(json.loads(json_text.write(RUN)) | fields)


def test_a_value_comes_back_as_it_was() -> None:
    found = json_text.read(BatchRun, json_text.write(RUN))

    assert found == RUN
    assert isinstance(found.marks[0][0], Mark)
    assert found != replace(RUN, epoch=5)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (changed(epoch="4"), "epoch: Input should be a valid integer"),
        (changed(epoch=True), "epoch: Input should be a valid integer"),
        (changed(cut={"x": 1}), "cut: x: "),
        (changed(computed=[[1]]), "computed: 0: 1: Field required"),
        (changed(of_another_release=1), "of_another_release: Unexpected"),
        (
            changed(incomplete=[{"window_start": 0, "window_end": 1, "reason": "lost", "more": 1}]),
            "incomplete: 0: more",
        ),
        ("[]", "Input should be"),
        ("{", "Invalid JSON"),
        ("", "Invalid JSON"),
    ],
)
def test_another_shape_is_refused_with_the_field(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said) as refused:
        json_text.read(BatchRun, text)

    assert "\n" not in str(refused.value)
