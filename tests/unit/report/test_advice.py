"""Advice on the page, in the pull request and in the published object: predicted, found; names of keys stay text."""

import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from markdown_it import MarkdownIt

from cutover.reconcile.advisor import advice_text
from cutover.reconcile.report import page
from cutover.reconcile.report.forms import markdown
from cutover.reconcile.result.advice import (
    Advice,
    Culprit,
    NamedSetting,
    Prediction,
    ProvenSetting,
    select_outcome,
)
from cutover.reconcile.result.outcome import Reconciliation
from tests.support.history.reconciliations import flights
from tests.unit.report.test_log_lateness import HOSTILE

MINUTE = 60_000_000
SCHEMA = json.loads(Path("reconcile/report.schema.json").read_text(encoding="utf-8"))


def predicted(out_of_orderness: int, allowed: int, *, late: int) -> Prediction:
    """Return what a setting would come to; lengths in minutes."""
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


def advised(*, late: int = 7, what: str = "shop=north", proven: bool = True, off: int = 0) -> Advice:
    """Return advice on three settings; of the first one the run has held `off` rows more than was predicted."""
    pairs = {"fastest": (0, 120), "balanced": (30, 90), "exact": (30, 720)}
    named = tuple(
        NamedSetting(name=name, prediction=predicted(*pair, late=late if name != "exact" else 0))
        for name, pair in pairs.items()
    )
    outcomes = [select_outcome(one.prediction) for one in named]
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
        settings=named,
        proven=tuple(
            ProvenSetting(setting=one, found=found, is_held_bound=False)
            for one, found in zip(named, outcomes, strict=True)
        )
        if proven
        else (),
        proven_at="2026-11-24T12:30:00Z" if proven else None,
        partitions=(Culprit(what="partition=3", late=7, late_share=1.0, share=0.1),),
        keys=(Culprit(what=what, late=7, late_share=1.0, share=0.1),),
    )


def report(advice: Advice) -> Reconciliation:
    """Return a comparison with advice."""
    return replace(flights(), advice=advice)


def test_page_and_pull_request_show_settings_and_proof() -> None:
    result = report(advised())

    for shown in (page.render(result), markdown.render(result)):
        for text in (
            "in force",
            "fastest",
            "balanced",
            "30 minutes",
            "4,711",
            "32",
            "no answer",
            "all hold",
            "partition",
        ):
            assert text in shown
        assert "predicted" in shown


def test_what_was_not_found_is_named() -> None:
    (first, second, *_) = advised(off=1).proven
    assert (first.wrong, second.wrong) == (("held",), ())
    assert advice_text.describe_proof(advised(off=1)) == (
        "3 predictions for flights, each beside a run of the streaming path: 1 wrong."
    )
    assert "found, WRONG: held" in page.render(report(advised(off=1)))


@pytest.mark.parametrize(("off", "wrong"), [(-1, ()), (0, ()), (1, ("held",))])
def test_of_sessions_the_rows_held_are_at_most_what_was_predicted(off: int, wrong: tuple[str, ...]) -> None:
    assert replace(advised(off=off).proven[0], is_held_bound=True).wrong == wrong


def test_without_a_proof_the_command_is_named() -> None:
    shown = page.render(report(advised(proven=False)))

    assert "cutover advise flights --prove" in shown
    assert "found, WRONG" not in shown


def test_a_pipeline_without_advice_names_the_command() -> None:
    assert "<code>cutover advise flights</code> makes some" in page.render(flights())
    assert "out-of-orderness" not in markdown.render(flights())


def test_where_no_record_was_late_the_shortest_exact_setting_is_advised() -> None:
    said = advice_text.describe_advice(advised(late=0))

    assert said.startswith("No record of flights was late: a shorter wait is all that could be gained. ")
    assert "Lateness(out_of_orderness='30 minutes', allowed='12 hours') is the shortest" in said
    assert advice_text.describe_advice(advised()).endswith("allowed='90 minutes') is the balanced setting.")


def test_a_value_of_a_key_stays_text() -> None:
    result = report(advised(what=HOSTILE))

    html = MarkdownIt("gfm-like", {"linkify": False, "html": True}).render(markdown.render(result))
    for shown in (page.render(result), html):
        assert "<script>alert" not in shown
        assert "\x1b" not in shown
        assert "\0" not in shown
    assert "<a " not in html


def test_it_is_in_the_published_object_and_reads_back() -> None:
    result = report(advised(what=HOSTILE))

    jsonschema.validate(result.to_json(), SCHEMA)
    assert Reconciliation.from_json(json.loads(json.dumps(result.to_json()))) == result
