"""Advice on the page, in the pull request and in the published object; names of keys remain text."""

import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from markdown_it import MarkdownIt

from cutover.reconcile.advisor import advice_text
from cutover.reconcile.cli.advise import name_next
from cutover.reconcile.report import files, page
from cutover.reconcile.result.parts import (
    Advice,
    Culprit,
    LateOutcome,
    NamedSetting,
    Prediction,
    ProvenSetting,
    select_outcome,
)
from cutover.reconcile.result.report import Report
from tests.support.history.reconciliations import flights
from tests.unit.report.test_log_lateness import HOSTILE

MINUTE = 60_000_000
SCHEMA = json.loads(Path("reconcile/report.schema.json").read_text(encoding="utf-8"))


def predicted(out_of_orderness: int, allowed: int, *, late: int) -> Prediction:
    """Build the prediction of a setting; lengths in minutes."""
    return Prediction(
        out_of_orderness=out_of_orderness * MINUTE,
        allowed=allowed * MINUTE,
        windows=1_000,
        exact=1_000 - late,
        on_time=900,
        late_rows=late,
        late=late,
        late_share=late / 10_000,
        held=4_711,
        delay_p50=(out_of_orderness + 2) * MINUTE,
        delay_p99=None,
    )


def advised(*, late: int = 7, culprit: str = "shop=north", proven: bool = True, off: int = 0) -> Advice:
    """Build advice on three settings; the run of the first one held `off` more rows than predicted."""
    pairs = {"fastest": (0, 120), "balanced": (30, 90), "exact": (30, 720)}
    named_settings = tuple(
        NamedSetting(name=name, prediction=predicted(*pair, late=late if name != "exact" else 0))
        for name, pair in pairs.items()
    )
    outcomes = [select_outcome(setting.prediction) for setting in named_settings]
    outcomes[0] = replace(outcomes[0], held=outcomes[0].held + off)
    return Advice(
        pipeline="flights",
        at="2026-11-24T12:00:00Z",
        result_fingerprint="r",
        version=0,
        epoch=41,
        epochs=42,
        records=10_000,
        in_force=predicted(5, 5, late=late),
        settings=named_settings,
        proven=tuple(
            ProvenSetting(setting=setting, found=outcome, is_held_bound=False)
            for setting, outcome in zip(named_settings, outcomes, strict=True)
        )
        if proven
        else (),
        proven_at="2026-11-24T12:30:00Z" if proven else None,
        partitions=(Culprit(what="partition=3", late=7, late_share=1.0, share=0.1),),
        keys=(Culprit(what=culprit, late=7, late_share=1.0, share=0.1),),
    )


def report(advice: Advice) -> Report:
    """Return a comparison with advice."""
    return replace(flights(), advice=advice)


def test_page_and_pull_request_show_settings_and_proof() -> None:
    result = report(advised())

    for rendered in (page.render_page(result), files.render_markdown(result)):
        for text in (
            "in force",
            "fastest",
            "balanced",
            "30 min",
            "4,711",
            "32",
            "no answer",
            "all hold",
            "partition",
        ):
            assert text in rendered
        assert "predicted" in rendered


def test_wrong_predictions_are_named() -> None:
    (first_proof, second, *_) = advised(off=1).proven
    assert (first_proof.wrong, second.wrong) == (("held",), ())
    assert advice_text.describe_proof(advised(off=1)) == (
        "3 predictions for flights, each compared with a run of the streaming path: 1 wrong."
    )
    assert "found, WRONG: held" in page.render_page(report(advised(off=1)))


@pytest.mark.parametrize(("off", "wrong"), [(-1, ()), (0, ()), (1, ("held",))])
def test_held_rows_of_sessions_have_an_upper_bound(off: int, wrong: tuple[str, ...]) -> None:
    assert replace(advised(off=off).proven[0], is_held_bound=True).wrong == wrong


def test_without_a_proof_the_command_is_named() -> None:
    rendered = page.render_page(report(advised(proven=False)))

    assert "cutover advise flights --prove" in rendered
    assert "found, WRONG" not in rendered


def test_a_pipeline_without_advice_names_the_command() -> None:
    assert "<code>cutover advise flights</code> makes some" in page.render_page(flights())
    assert "out-of-orderness" not in files.render_markdown(flights())


def test_shortest_exact_setting_is_advised_without_late_records() -> None:
    advice = advice_text.describe_advice(advised(late=0))

    assert advice.startswith("No record of flights was late: a shorter wait is all that could be gained. ")
    assert "Lateness(out_of_orderness='30 min', allowed='12 h') is the shortest" in advice
    assert advice_text.describe_advice(advised()).endswith("allowed='1 h 30 min') is the balanced setting.")


def at_real_speed(advice: Advice, late: int) -> Advice:
    """Build advice under whose settings `late` records would be late at real speed."""
    real = LateOutcome(exact=990, on_time=890, late_rows=late, late=late)
    settings = tuple(replace(setting, prediction=replace(setting.prediction, real=real)) for setting in advice.settings)
    return replace(advice, settings=settings, in_force=replace(advice.in_force, real=real), log_pace=1.0)


@pytest.mark.parametrize("late", [0, 7])
def test_a_setting_in_force_is_not_advised_as_a_change(late: int) -> None:
    other = advised(late=late)
    setting = next(one for one in other.settings if one.name == ("balanced" if late else "exact"))
    advice = replace(other, in_force=setting.prediction, proven=())

    assert advice_text.is_in_force(advice)
    assert not advice_text.is_in_force(other)
    assert "in force" in advice_text.describe_advice(advice)
    assert "shorter wait" not in advice_text.describe_advice(advice)
    assert "replay" not in name_next(advice, 1)
    assert "`cutover replay flights --into 1`" in name_next(other, 1)


def test_figures_at_real_speed_are_shown_for_each_setting() -> None:
    advice = at_real_speed(advised(), 3_321)

    assert "At real speed 3,321 records would be late under it, as the epochs read them 7." in (
        advice_text.describe_advice(advice)
    )
    for rendered in (page.render_page(report(advice)), files.render_markdown(report(advice))):
        assert "late at real speed" in rendered
        assert rendered.count("3,321") >= 5


def test_a_shorter_wait_is_not_free_if_records_are_late_at_real_speed() -> None:
    advice = advice_text.describe_advice(at_real_speed(advised(late=0), 3))

    assert "a shorter wait is all" not in advice
    assert "at real speed 3 records would have been" in advice
    assert "none would have been late in these epochs (at real speed, 3 would be)." in advice


def test_advice_on_a_replay_follows_the_records_at_real_speed() -> None:
    few_as_read = replace(at_real_speed(advised(late=0), 3), is_replay=True)
    none_at_real_speed = replace(at_real_speed(advised(late=7), 0), is_replay=True)

    assert "is the balanced setting. At real speed 3 records" in advice_text.describe_advice(few_as_read)
    assert "is the shortest under which none would be late at real speed (as the epochs read them, 0)" in (
        advice_text.describe_advice(none_at_real_speed)
    )


@pytest.mark.parametrize("is_replay", [True, None])
def test_nothing_is_recommended_if_real_speed_and_reading_speed_do_not_show_late_records(
    *, is_replay: bool | None
) -> None:
    unknown = replace(advised(late=0), is_replay=is_replay)

    assert not unknown.is_conclusive
    assert "no setting is recommended" in advice_text.describe_advice(unknown)
    assert "unknown" in (advice_text.describe_speed(unknown) or "")
    assert replace(at_real_speed(advised(), 3), is_replay=is_replay).is_conclusive


def test_a_replay_and_a_load_are_named() -> None:
    replayed = replace(advised(), is_replay=True, read_speed=8_640.4, log_pace=900.0)

    speed = advice_text.describe_speed(replayed)

    assert speed is not None
    assert "8,640 times faster" in speed
    assert "900 times faster" in speed
    assert "unknown" in speed
    assert "chosen by" not in speed
    assert advice_text.describe_speed(replace(advised(), read_speed=1.0, log_pace=1.0)) is None
    real = replace(at_real_speed(replayed, 3), is_replay=True)
    assert "chosen by" in (advice_text.describe_speed(real) or "")
    assert "unknown" in page.render_page(report(replayed))


def test_settings_with_the_same_figures_as_shown_are_one_row() -> None:
    predictions = [replace(predicted(o, a, late=7), on_time=900, delay_p50=MINUTE) for o, a in ((0, 1), (1, 0), (0, 5))]
    finer = replace(predictions[1], delay_p50=MINUTE + 1)  # differs in nothing that is shown
    apart = replace(predictions[2], held=9)
    in_force = replace(finer, out_of_orderness=9 * MINUTE)

    rows = advice_text.list_distinct_rows((predictions[0], apart, finer, in_force), in_force)

    assert [row[:3] for row in rows] == [("", "0 s", "1 min"), ("", "0 s", "5 min"), ("in force", "9 min", "0 s")]


def test_only_shown_columns_are_explained() -> None:
    explanations = " ".join(advice_text.list_explanations(advised()))
    bare = " ".join(advice_text.list_explanations(replace(advised(), partitions=(), keys=())))

    assert "late partition" in explanations
    assert "late partition" not in bare
    assert "real speed" not in bare


def test_settings_that_coincide_are_named_with_the_reason() -> None:
    few = advised()
    fastest, balanced, exact = few.settings
    coinciding = replace(
        few, settings=(fastest, balanced, replace(exact, prediction=replace(balanced.prediction, windows=169)))
    )
    few_windows = replace(balanced, prediction=replace(balanced.prediction, windows=169))
    small = replace(coinciding, settings=(fastest, few_windows, replace(exact, prediction=few_windows.prediction)))
    identical = replace(few, settings=(replace(fastest, prediction=balanced.prediction), balanced, exact))

    assert advice_text.describe_coincidences(few) == ()
    assert "leaves no record late" in " ".join(advice_text.describe_coincidences(coinciding))
    assert "99.9 % of 169 windows is all of them" in " ".join(advice_text.describe_coincidences(small))
    assert "fastest and balanced are one" in " ".join(advice_text.describe_coincidences(identical))


def test_culprits_that_are_not_listed_are_counted() -> None:
    assert advice_text.list_unlisted(advised()) == ()
    (remark,) = advice_text.list_unlisted(replace(advised(), keys_over=7, partitions_over=1))

    assert remark.startswith("1 of 7 keys")
    assert "1 of 7 keys" in page.render_page(report(replace(advised(), keys_over=7)))


def test_a_value_of_a_key_remains_text() -> None:
    result = report(advised(culprit=HOSTILE))

    html = MarkdownIt("gfm-like", {"linkify": False, "html": True}).render(files.render_markdown(result))
    for rendered in (page.render_page(result), html):
        assert "<script>alert" not in rendered
        assert "\x1b" not in rendered
        assert "\0" not in rendered
    assert "<a " not in html


def test_advice_round_trips_through_the_published_object() -> None:
    result = report(advised(culprit=HOSTILE))

    jsonschema.validate(result.to_json(), SCHEMA)
    assert Report.from_json(json.loads(json.dumps(result.to_json()))) == result
