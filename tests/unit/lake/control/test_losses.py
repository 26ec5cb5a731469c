"""Recorded losses: written once, read back, merged into ranges of windows."""

from dataclasses import replace

import pytest

from cutover.errors import LakeError
from cutover.lake.control import losses
from cutover.lake.control.versions import Version
from cutover.records.parsing import limits
from cutover.settings import Settings
from tests.support.log.losses import LOSS as A_LOSS

VERSION = Version(pipeline="p", result_fingerprint="f", lateness_fingerprint="l", number=3, uri="nowhere")
HOUR = 3_600_000_000
LOSS = replace(
    A_LOSS,
    pipeline="p",
    stream_version=3,
    epoch=7,
    windows_from=2 * HOUR,
    windows_to=5 * HOUR,
    why="retention was too short",
)


def test_a_recorded_loss_round_trips(settings: Settings) -> None:
    rows = (LOSS, replace(LOSS, partition=1, first=0, next=None, windows_from=limits.MIN_MICROS + 1))
    recorded_losses = losses.record(settings, rows, expected_sequence=losses.read_next_loss_sequence(settings, "p"))

    assert [loss.sequence for loss in recorded_losses] == [0, 0]
    assert losses.list_of_version(settings, VERSION) == recorded_losses
    assert losses.list_of_version(settings, replace(VERSION, number=4)) == ()
    assert losses.list_of_version(settings, replace(VERSION, result_fingerprint="g")) == ()


def test_a_loss_without_touched_windows_has_no_range(settings: Settings) -> None:
    losses.record(settings, [replace(LOSS, windows_from=None, windows_to=None)], expected_sequence=0)

    assert [loss.windows for loss in losses.list_of_version(settings, VERSION)] == [None]


def test_one_decision_is_recorded_once(settings: Settings) -> None:
    sequence = losses.read_next_loss_sequence(settings, "p")
    losses.record(settings, [LOSS], expected_sequence=sequence)

    with pytest.raises(LakeError, match="another process appended row 0 first"):
        losses.record(settings, [LOSS], expected_sequence=sequence)

    assert len(losses.list_of_version(settings, VERSION)) == 1
    assert losses.read_next_loss_sequence(settings, "p") == 1
    assert losses.read_next_loss_sequence(settings, "q") == 0


def test_an_epoch_starts_after_the_latest_loss_of_its_log() -> None:
    later_loss = replace(LOSS, sequence=1, first=60, next=70)
    other_losses = (replace(LOSS, epoch=8, partition=1), replace(LOSS, topic_id="B", partition=2))
    unknown = replace(LOSS, partition=3, next=None)

    assert losses.find_start_offsets([LOSS, later_loss, *other_losses, unknown], 7, "A") == {0: 70}


def test_adjacent_touched_windows_are_merged() -> None:
    touching_losses = [
        replace(LOSS, windows_from=a * HOUR, windows_to=b * HOUR) for a, b in ((8, 9), (1, 3), (2, 4), (4, 5))
    ]

    ranges = losses.find_touched_windows([*touching_losses, replace(LOSS, windows_from=None, windows_to=None)])

    assert ranges == ((HOUR, 5 * HOUR), (8 * HOUR, 9 * HOUR))
    touched_hours = {hour: losses.is_touched(hour * HOUR, ranges) for hour in (0, 1, 4, 5, 8, 9)}
    assert touched_hours == {0: False, 1: True, 4: True, 5: False, 8: True, 9: False}


def test_losses_inside_a_range_move_no_start() -> None:
    inner_loss = replace(LOSS, kind="inside", first=3, next=90)

    assert losses.find_start_offsets([inner_loss], 7, "A") == {}
    assert losses.list_ends([LOSS, inner_loss]) == (LOSS,)


def test_incomplete_ranges_are_those_of_the_log() -> None:
    inner_loss = replace(LOSS, kind="inside", first=3, next=9)
    other_losses = (LOSS, replace(inner_loss, topic_id="B"), replace(inner_loss, partition=1, first=0))

    assert losses.find_incomplete_ranges([inner_loss, *other_losses], "A") == {0: [(3, 9)], 1: [(0, 9)]}
