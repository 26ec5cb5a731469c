"""JSON values in the lake: they round-trip, or are rejected with the field's name."""

import json
from dataclasses import replace
from typing import Any

import pytest

from cutover import json_text
from cutover.lake.batch_runs import BatchRun, Incomplete
from cutover.lake.dimensions.joined_versions import VersionSpan
from cutover.log.cut import Mark

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


def change_json(**fields: Any) -> str:
    return json.dumps(json.loads(json_text.encode_dataclass(RUN)) | fields)


def test_a_value_round_trips() -> None:
    decoded = json_text.parse_dataclass(BatchRun, json_text.encode_dataclass(RUN))

    assert decoded == RUN
    assert isinstance(decoded.marks[0][0], Mark)
    assert decoded != replace(RUN, epoch=5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (change_json(epoch="4"), "epoch: Input should be a valid integer"),
        (change_json(epoch=True), "epoch: Input should be a valid integer"),
        (change_json(cut={"x": 1}), "cut: x: "),
        (change_json(computed=[[1]]), "computed: 0: 1: Field required"),
        (change_json(of_another_release=1), "of_another_release: Unexpected"),
        (
            change_json(incomplete=[{"window_start": 0, "window_end": 1, "reason": "lost", "more": 1}]),
            "incomplete: 0: more",
        ),
        ("[]", "Input should be"),
        ("{", "Invalid JSON"),
        ("", "Invalid JSON"),
    ],
)
def test_another_shape_is_rejected_with_the_field(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as refused:
        json_text.parse_dataclass(BatchRun, text)

    assert "\n" not in str(refused.value)
