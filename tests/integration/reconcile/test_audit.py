"""Replays of a real log: a sound definition gives one answer, a planted measure that depends on order is blamed."""

import json
from dataclasses import replace

import pytest

from cutover.cli.app import main
from cutover.clock import SystemClock
from cutover.definition import Avg, Count, Fixed, Max, Min, Pipeline, Sum, Variance
from cutover.definition.measures.kinds import Measure
from cutover.definition.measures.states import StateColumn
from cutover.definition.windows.kinds import SlidingWindows
from cutover.errors import LogError
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.audit import run
from cutover.reconcile.audit.noise import find_newest_noise, make_rule, measure_noise, record_noise
from cutover.settings import Settings
from cutover.timestamps import MICROSECONDS
from tests.integration.streaming import rig
from tests.integration.streaming.rig import Event

EVENTS = [
    Event(id=i, minute=i / 3 - 40 * (i % 7 == 0), key=("a", "b", None)[i % 3], partition=i % 2) for i in range(300)
]
EVENTS += [Event(id=-1, raw=b"{", partition=1), Event(id=900, key="drop"), Event(id=901, minute=500, logged=90)]


class AnyOf(Min):
    """A measure that no definition should have: whichever record comes first."""

    def states(self, name: str, value_type: str | None) -> tuple[StateColumn, ...]:
        return (StateColumn(column=name, type=value_type or "string", create=f"first({self.expression})", merge="min"),)


@pytest.fixture
def clicks(kafka_settings: Settings, topic_name: str) -> tuple[Settings, Pipeline]:
    rig.make_topic(kafka_settings, topic_name, partitions=2)
    rig.send(kafka_settings, topic_name, EVENTS)
    pipeline = rig.pipeline(topic_name)
    lateness = replace(pipeline.lateness, out_of_orderness="1 minute")
    return kafka_settings, replace(pipeline, lateness=lateness)


@pytest.mark.parametrize(
    "window",
    [Fixed(minutes=10), SlidingWindows(size=20 * MICROSECONDS["minute"], every=5 * MICROSECONDS["minute"])],
    ids=str,
)
def test_every_replay_of_a_sound_definition_gives_one_answer(
    clicks: tuple[Settings, Pipeline], window: SlidingWindows
) -> None:
    settings, pipeline = clicks

    determinism_audit = run.audit_determinism(
        PipelineLake(settings, replace(pipeline, window=window)), replays=3, seed=7
    )

    assert [replay.blamed for replay in determinism_audit.replays] == [()] * 3
    assert determinism_audit.exit_code == 0
    assert determinism_audit.records == len(EVENTS)
    assert determinism_audit.rows > 10
    assert max(replay.late for replay in determinism_audit.replays) > 0


@pytest.mark.quick
def test_measure_that_depends_on_the_order_is_blamed_with_its_expression(clicks: tuple[Settings, Pipeline]) -> None:
    settings, pipeline = clicks
    planted = replace(pipeline, measures={"clicks": Count(), "some": AnyOf("id"), "newest": Max("id")})

    determinism_audit = run.audit_determinism(PipelineLake(settings, planted), replays=1, seed=7)

    assert determinism_audit.exit_code == 1
    assert {
        (b.column, b.expression, b.within_tolerance) for replay in determinism_audit.replays for b in replay.blamed
    } == {("some", "id", False)}


def test_doubles_are_the_same_in_every_replay(clicks: tuple[Settings, Pipeline]) -> None:
    settings, pipeline = clicks
    thirds, far = "CAST(id AS double) / 3", "CAST(id AS double) / 3 + 1000000000"  # a mean far larger than the spread
    measures: dict[str, Measure] = {"thirds": Sum(thirds), "mean": Avg(thirds), "spread": Variance(far)}

    determinism_audit = run.audit_determinism(
        PipelineLake(settings, replace(pipeline, measures=measures)), replays=3, seed=7
    )

    assert [blamed for replay in determinism_audit.replays for blamed in replay.blamed] == []


def test_topic_without_records_has_nothing_to_replay(kafka_settings: Settings, topic_name: str) -> None:
    rig.make_topic(kafka_settings, topic_name)

    with pytest.raises(LogError, match="expected records to replay, it holds none"):
        run.audit_determinism(PipelineLake(kafka_settings, rig.pipeline(topic_name)), replays=1, seed=1)


def test_command_says_so_in_words_and_as_json(
    clicks: tuple[Settings, Pipeline],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    settings, pipeline = clicks
    rig.for_commands(monkeypatch, settings, pipeline.source.name)

    assert main(["audit", "determinism", "clicks", "--replays", "1", "--seed", "3"]) == 0
    output = capsys.readouterr().out
    assert main(["audit", "determinism", "clicks", "--replays", "1", "--seed", "3", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)

    assert "gave the same answer" in output
    assert f"{len(EVENTS)} offsets" in output
    assert (answer["pipeline"], answer["exit_code"], answer["seed"], len(answer["replays"])) == ("clicks", 0, 3, 1)


def test_noise_is_measured_and_recorded_and_a_sound_definition_has_none(clicks: tuple[Settings, Pipeline]) -> None:
    settings, pipeline = clicks
    thirds = "CAST(id AS double) / 3"
    planted = replace(pipeline, measures={"thirds": Sum(thirds), "some": AnyOf("id"), "newest": Max("id")})
    clock = SystemClock()

    lake = PipelineLake(settings, planted)
    noise = measure_noise(lake, batches=2, streams=2, seed=7, clock=clock)
    sound = measure_noise(PipelineLake(settings, pipeline), batches=1, streams=1, seed=7, clock=clock)

    assert (noise.exit_code, sound.exit_code, sound.measures) == (1, 0, ())
    assert {measure.column for measure in noise.measures} == {"some"}
    assert noise.measures[0].size is not None
    assert noise.measures[0].size.largest >= 1
    assert make_rule(noise, planted) is not None
    assert find_newest_noise(lake) is None
    record_noise(settings, noise, clock)
    assert find_newest_noise(lake) == noise
    assert find_newest_noise(PipelineLake(settings, pipeline)) is None
