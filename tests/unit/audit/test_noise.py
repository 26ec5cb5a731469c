"""Size of the difference between two results, and the acceptance rule that is proposed but never applied."""

import tomllib
from dataclasses import replace

import duckdb
import pytest
from pydantic import ValidationError

from cutover.definition import Count, Fixed, Max, Pipeline, Topic
from cutover.definition.model.policy import AcceptanceRule
from cutover.reconcile.audit import run
from cutover.reconcile.audit.noise import Noise, NoiseOfMeasure, describe_noise, make_rule
from cutover.reconcile.audit.run import draw_batch_replay

PIPELINE = Pipeline(
    name="clicks",
    source=Topic(name="clicks", schema="id bigint NOT NULL, k string, at timestamp NOT NULL", event_time="at"),
    key=("k",),
    window=Fixed(minutes=10),
    measures={"clicks": Count(), "newest": Max("id"), "word": Max("k")},
)
SIZE = run.DifferenceSize(largest=3.0, relative=0.5, half=1.0, p95=2.0, p99=2.5, volume=6.0)
NOISY = NoiseOfMeasure(
    column="newest", expression="id", paths=("batch",), replays=1, rows=2, size=SIZE, example="noon, a: 1 and 2"
)
NOISE = Noise(
    pipeline="clicks",
    at="2026-03-01T12:00:00Z",
    result_fingerprint="f",
    records=10,
    rows=4,
    batches=2,
    streams=2,
    seed=7,
    measures=(NOISY,),
)


def find(*answers: tuple[str, int | None, str]) -> dict[str, run.BlamedMeasure]:
    schema = "window_start TIMESTAMPTZ, window_end TIMESTAMPTZ, k VARCHAR, clicks BIGINT, newest BIGINT, word VARCHAR"
    at = "TIMESTAMPTZ '2026-03-01 12:00Z', TIMESTAMPTZ '2026-03-01 12:10Z'"
    with duckdb.connect() as connection:
        for name, rows in (("answer_0", [(k, 10, "w") for k, _, _ in answers]), ("answer_1", list(answers))):
            connection.execute(f"CREATE TABLE {name} ({schema}, _n BIGINT)")
            for row in rows:
                connection.execute(f"INSERT INTO {name} VALUES ({at}, $1, 1, $2, $3, 1)", list(row))  # noqa: S608
        return {measure.column: measure for measure in run.find(connection, PIPELINE, "answer_1")}


def test_size_of_a_difference_counts_only_rows_that_differ() -> None:
    blamed = find(("a", 10, "w"), ("b", 11, "w"), ("c", 14, "x"), ("d", None, "w"))

    assert set(blamed) == {"newest", "word"}
    size = blamed["newest"].size
    assert size is not None
    assert (blamed["newest"].rows, size.largest, size.half, size.volume) == (3, 4.0, 2.5, 5.0)
    assert size.relative == pytest.approx(4 / 14)
    assert (blamed["word"].rows, blamed["word"].size) == (1, None)


def test_answers_that_agree_have_no_size() -> None:
    assert find(("a", 10, "w"), ("b", 10, "w")) == {}


def test_rule_is_proposed_with_its_caps_and_rejected_until_completed() -> None:
    text = make_rule(NOISE, PIPELINE)

    assert text is not None
    proposed = tomllib.loads(text)
    with pytest.raises(ValidationError):
        AcceptanceRule.model_validate(proposed)
    answered = proposed | {"reason": "why", "owner": "who", "expires": tomllib.loads("d = 2027-01-31")["d"]}
    rule = AcceptanceRule.model_validate(answered)
    assert (rule.max_rows, dict(rule.max_volume), rule.measures, rule.kinds) == (
        2,
        {"newest": 6.0},
        ["newest"],
        ["changed"],
    )


@pytest.mark.parametrize(
    "measures",
    [
        (),
        (replace(NOISY, size=None),),
        (replace(NOISY, rows=501),),
        (NOISY, replace(NOISY, column="windows and keys", size=None)),
    ],
    ids=["none", "no number", "too many rows", "windows come and go"],
)
def test_no_rule_is_proposed_if_it_would_not_help(measures: tuple[NoiseOfMeasure, ...]) -> None:
    assert make_rule(replace(NOISE, measures=measures), PIPELINE) is None


def test_sentence_names_what_is_noisy_and_how_to_repeat_it() -> None:
    assert (
        describe_noise(NOISE)
        == "Noise in newest: 2 batches and 2 streams over 10 offsets, seed 7 gave more than one answer."
    )
    assert describe_noise(replace(NOISE, measures=())).startswith("No noise was found: 2 batches")


def test_batch_replay_is_one_epoch_with_several_tasks() -> None:
    span = {0: (0, 10), 1: (5, 9)}

    replays = [draw_batch_replay(span, number, 7) for number in range(1, 9)]

    assert all(replay.epochs == (span,) and replay.tasks > 1 for replay in replays)
    assert replays[0] == draw_batch_replay(span, 1, 7)
    assert len({replay.seed for replay in replays}) == len(replays)
