from pathlib import Path

import pytest

from cutover.errors import DefinitionError
from cutover.infra import doctor
from cutover.infra.doctor import LONG, TopicTimestamps
from cutover.infra.install import jars


@pytest.mark.parametrize(("gib", "grade"), [(20, "ok"), (3, "note"), (0.5, "broken")])
def test_disk_space_is_compared_with_the_need_of_the_sample(gib: float, grade: str) -> None:
    assert doctor.disk(int(gib * doctor.GIB), Path("/")).grade == grade


@pytest.mark.parametrize(("gib", "grade"), [(8, "ok"), (4, "note")])
def test_little_memory_is_noted(gib: int, grade: str) -> None:
    assert doctor.memory(gib * doctor.GIB).grade == grade


@pytest.mark.parametrize(("version", "fits"), [("17.0.15", True), ("21", True), ("25-ea", True), ("1.8.0_402", False)])
def test_java_17_or_newer_is_accepted(version: str, fits: bool) -> None:
    assert jars.is_supported_java(version) == fits


def test_missing_java_is_rejected() -> None:
    assert not jars.is_supported_java(None)


def test_a_topic_without_a_bound_on_timestamps_is_noted() -> None:
    topic = TopicTimestamps(name="t", kind="CreateTime", ahead_ms=LONG)

    assert not topic.bounded
    assert "LogAppendTime" in topic.hint


@pytest.mark.parametrize(
    "topic",
    [
        TopicTimestamps(name="t", kind="LogAppendTime", ahead_ms=LONG),
        TopicTimestamps(name="t", kind="CreateTime", ahead_ms=1),
    ],
)
def test_a_topic_with_the_brokers_clock_or_a_bound_is_fine(topic: TopicTimestamps) -> None:
    assert topic.bounded


def test_invalid_settings_are_still_listed() -> None:
    examination = doctor.report_invalid_settings(DefinitionError("kafka.x: not known\nHint: `cutover doctor`"))

    assert examination.broken
    assert examination.findings[0].found == "kafka.x: not known"
    assert "kafka.protocol" in {row.name for row in examination.settings}
