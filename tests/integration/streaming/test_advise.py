"""Predictions of the advisor for lateness settings, compared with real drivers over the same log."""

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from cutover.cli import app
from cutover.definition import Count, Join, Lateness, Max, Pipeline, Sessions
from cutover.engine import queries
from cutover.errors import DefinitionError, LakeError, LogError
from cutover.lake.control import versions
from cutover.lake.registered_functions import find_repeat
from cutover.lake.tables import delta
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile import journal_rows
from cutover.reconcile.advisor.gather import gather_delays
from cutover.reconcile.advisor.predict import Delays, choose_settings, predict
from cutover.reconcile.advisor.prove import prove_settings
from cutover.reconcile.result.parts import NamedSetting, select_outcome
from cutover.settings import Settings
from cutover.streaming import driver
from cutover.timestamps import parse_duration
from tests.integration.report.test_hostile_keys import CONTROL, HOSTILE, list_texts
from tests.integration.streaming import rig
from tests.integration.streaming.rig import Event

SETTINGS = (
    ("0 seconds", "5 minutes"),
    ("0 seconds", "0 seconds"),
    ("10 minutes", "0 seconds"),
    ("5 minutes", "30 minutes"),
    ("0 seconds", "2 hours"),
)


def draw_events(count: int, *, seed: int) -> list[Event]:
    """Return records of some hours in two partitions, each some minutes out of order, a few by an hour and more."""
    draw = random.Random(seed)  # noqa: S311 -- no secret
    late = (draw.choice((0, 0, 0, 2, 7, 12, 45, 95)) for _ in range(count))
    return [Event(id=i, minute=max(0, i - by), key=draw.choice("abc"), partition=i % 2) for i, by in enumerate(late)]


def count_late(lake: PipelineLake) -> tuple[int, int]:
    """Return late (record, window) pairs and windows with any, as the driver's ledger has them."""
    version = versions.find_current_version(lake)
    assert version is not None
    with queries.open_duckdb() as connection:
        delta.relation(connection, "log", version.uri)
        query = "SELECT count(*), count(DISTINCT window_start) FROM log WHERE _kind = 'ledger' AND _class = 'late'"
        pairs, windows = connection.execute(query).fetchall()[0]
    return int(pairs), int(windows)


def under(pipeline: Pipeline, name: str, setting: tuple[str, str]) -> Pipeline:
    lateness = Lateness(out_of_orderness=setting[0], allowed=setting[1])
    return replace(pipeline, name=f"{pipeline.name}_{name}", lateness=lateness)


@pytest.mark.parametrize("merges", [False, True], ids=["fixed", "sessions"])
def test_what_is_predicted_is_what_a_driver_finds(quick: Settings, topic: str, *, merges: bool) -> None:
    settings = rig.fast(quick)
    pipeline = rig.pipeline(topic, cap=40)
    if merges:
        pipeline = replace(pipeline, window=Sessions(gap="4 minutes"))
    rig.send(settings, topic, draw_events(400, seed=11))
    settings_tried = SETTINGS[::2] if merges else SETTINGS
    runs = [under(pipeline, f"n{number}", setting) for number, setting in enumerate(settings_tried)]
    for run in runs:
        driver.run_driver(PipelineLake(settings, run), until="drain")

    delays = gather_delays(PipelineLake(settings, runs[0])).delays

    predicted, real = [], []
    for run, setting in zip(runs, settings_tried, strict=True):
        prediction = predict(delays, *(parse_duration(text, of="test") for text in setting))
        late, windows = count_late(PipelineLake(settings, run))
        predicted.append((prediction.late, None if merges else prediction.windows - prediction.exact))
        real.append((late, None if merges else windows))
    assert predicted == real
    assert real[0][0] > 0 == real[-1][0]
    assert len({late for late, _ in real}) > len(runs) / 2


def test_the_exact_setting_has_no_late_record_and_none_is_shorter(quick: Settings, topic: str) -> None:
    settings, pipeline = rig.fast(quick), rig.pipeline(topic, cap=40)
    rig.send(settings, topic, draw_events(400, seed=12))
    lake = PipelineLake(settings, pipeline)
    driver.run_driver(lake, until="drain")

    delays = gather_delays(lake).delays

    predictions = {choice.name: choice.prediction for choice in choose_settings(delays)}
    exact = predictions["exact"].out_of_orderness + predictions["exact"].allowed
    assert (predictions["exact"].late, predictions["exact"].exact) == (0, predictions["exact"].windows)
    assert predictions["fastest"].out_of_orderness == 0
    assert predictions["balanced"].exact >= 0.999 * predictions["balanced"].windows
    assert predict(delays, 0, exact // 2).late > 0
    assert predictions["fastest"].held <= predictions["exact"].held


def test_a_key_that_alone_is_late_is_named(quick: Settings, topic: str) -> None:
    settings, pipeline = rig.fast(quick), rig.pipeline(topic, cap=40)
    even = [Event(id=i, minute=i, key="ab"[i % 4 // 2], partition=0) for i in range(0, 300, 2)]
    slow = [Event(id=i, minute=max(0, i - 90 * (i % 5 == 0)), key="c", partition=1) for i in range(1, 300, 6)]
    rig.send(settings, topic, sorted([*even, *slow], key=lambda event: event.id))
    lake = PipelineLake(settings, pipeline)
    driver.run_driver(lake, until="drain")

    lateness = gather_delays(lake)

    assert [(segment.what, segment.late_share) for segment in (*lateness.keys, *lateness.partitions)] == [
        ("k=c", 1.0),
        ("partition=1", 1.0),
    ]
    assert predict(lateness.delays, 0, 0).late > 0


def test_a_log_without_late_rows_is_said_to_have_none_and_the_shortest_wait_is_advised(
    quick: Settings, topic: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = rig.fast(quick)
    rig.for_commands(monkeypatch, settings, topic)
    rig.send(settings, topic, [Event(id=i, minute=i, key="ab"[i % 2]) for i in range(40)])
    driver.run_driver(PipelineLake(settings, rig.pipeline(topic, cap=4)), until="drain")
    capsys.readouterr()

    assert app.main(["advise", "clicks"]) == 0

    output = " ".join(capsys.readouterr().out.split())
    assert "No record of clicks would be late at real speed: a shorter wait is all that could be gained." in output
    assert "Lateness(out_of_orderness='0 s', allowed='0 s') is the shortest" in output
    advice = journal_rows.find_advice(PipelineLake(settings, rig.pipeline(topic)))
    assert advice is not None
    exact = next(setting.prediction for setting in advice.settings if setting.name == "exact")
    assert (exact.out_of_orderness, exact.allowed, exact.late, exact.on_time) == (0, 0, 0, exact.windows)
    assert advice.in_force.delay_p50 is not None
    assert exact.delay_p50 is not None
    assert exact.delay_p50 < advice.in_force.delay_p50


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_hostile_key_that_is_late_stays_text(
    quick: Settings, topic: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    settings = rig.fast(quick)
    rig.for_commands(monkeypatch, settings, topic)
    key = HOSTILE[form == "json"]
    even = [Event(id=i, minute=i, key="ab"[i % 4 // 2], partition=0) for i in range(0, 300, 2)]
    slow = [Event(id=i, minute=max(0, i - 90 * (i % 5 == 0)), key=key, partition=1) for i in range(1, 300, 6)]
    rig.send(settings, topic, sorted([*even, *slow], key=lambda event: event.id))
    driver.run_driver(PipelineLake(settings, rig.pipeline(topic, cap=40)), until="drain")
    capsys.readouterr()

    for command in ("advise", "lateness"):
        assert app.main([command, "clicks", *(["--json"] if form == "json" else [])]) == 0
        output = capsys.readouterr()
        assert CONTROL.findall(output.out) == []
        assert form != "json" or HOSTILE[1] in " ".join(list_texts(json.loads(output.out)))
        assert form == "json" or "alert(1)" in output.out


def make_join(topic: str) -> Pipeline:
    """Return clicks that meet those of another topic by key and window."""
    alone = rig.pipeline(topic, cap=40)
    right = replace(alone.source, name=f"{topic}-right")
    joined = Join(right=right, on={"k": "k"}, how="inner", prefix="right_")
    return replace(alone, where=None, join=joined, measures={"pairs": Count(), "newest": Max("right_id")})


def test_advice_on_a_join_is_proven_like_any_other(quick: Settings, topic: str) -> None:
    settings, pipeline = rig.fast(quick), make_join(topic)
    rig.make_topic(settings, f"{topic}-right", partitions=2)
    rig.send(settings, topic, draw_events(120, seed=14))
    rig.send(settings, f"{topic}-right", draw_events(120, seed=15))
    lake = PipelineLake(settings, pipeline)
    driver.run_driver(lake, until="drain")
    lateness = gather_delays(lake)
    named_settings = name_settings(lateness.delays, [SETTINGS[1]])

    (proven,) = prove_settings(lake, lateness.newest_epoch, named_settings, watch_nothing)

    assert (proven.wrong, proven.found) == ((), select_outcome(named_settings[0].prediction))
    assert proven.found.late > 0


@pytest.mark.quick
def test_what_cannot_be_advised_on_is_refused(quick: Settings, topic: str) -> None:
    pipeline = rig.pipeline(topic, cap=40)
    with pytest.raises(LakeError, match="expected epochs that have read records, found none"):
        gather_delays(PipelineLake(quick, pipeline))
    with pytest.raises(
        DefinitionError, match=r"(?s)without `record_id`.*finds other duplicates.*cutover lateness clicks"
    ):
        gather_delays(PipelineLake(quick, replace(pipeline, source=replace(pipeline.source, record_id="id"))))


def name_settings(delays: Delays, lengths: Sequence[tuple[str, str]]) -> list[NamedSetting]:
    pairs = [tuple(parse_duration(text, of="test") for text in setting) for setting in lengths]
    return [NamedSetting(name="tried", prediction=predict(delays, o, a)) for o, a in pairs]


def watch_nothing(setting: str, steps_done: int, of: int) -> None:
    """Take no note of progress."""


@pytest.mark.parametrize("kind", ["fixed", "sessions"])
def test_predictions_are_proven_beside_what_serves(quick: Settings, topic: str, kind: str) -> None:
    settings = rig.fast(quick)
    pipeline = rig.pipeline(topic, cap=40)
    events = draw_events(240, seed=13)
    if kind == "sessions":
        pipeline = replace(pipeline, window=Sessions(gap="4 minutes"))
    rig.send(settings, topic, events)
    driver.run_driver(PipelineLake(settings, pipeline), until="drain")
    lateness = gather_delays(PipelineLake(settings, pipeline))
    files_before = sorted(str(path) for path in Path(settings.lake_uri).rglob("*"))
    named_settings = name_settings(lateness.delays, SETTINGS[:3])

    proven = prove_settings(PipelineLake(settings, pipeline), lateness.newest_epoch, named_settings, watch_nothing)

    assert [proof.found for proof in proven if not proof.holds] == []
    assert proven[1].found.late > 0
    assert len({proof.found.late for proof in proven}) > 1
    assert 0 < proven[2].found.on_time < proven[2].found.windows
    assert sorted(str(path) for path in Path(settings.lake_uri).rglob("*")) == files_before
    assert not list((settings.home / "tmp").glob("repeat-*"))
    wrong = replace(
        named_settings[1], prediction=replace(named_settings[1].prediction, late=named_settings[1].prediction.late + 1)
    )
    assert not replace(proven[1], setting=wrong).holds


def test_epochs_of_a_topic_made_again_are_not_repeated(quick: Settings, topic: str) -> None:
    settings, pipeline = rig.fast(quick), rig.pipeline(topic, cap=40)
    rig.send(settings, topic, draw_events(40, seed=3))
    lake = PipelineLake(settings, pipeline)
    driver.run_driver(lake, until="drain")
    records = rig.records(lake)
    other = [replace(record, topic_id="another") for record in records]
    with (
        pytest.raises(LogError, match="expected all from topic id"),
        find_repeat()(lake, other, lambda steps_done, of: None),  # noqa: ARG005 -- names of the callback
    ):
        pass
