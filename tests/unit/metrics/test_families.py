"""Names, units and labels of metrics, and their text as parsed by the Prometheus client."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from cutover.metrics import FAMILIES, MetricSample, render_samples

LABELS = {"pipeline", "partition", "class", "task", "alert", "severity", "check", "state", "stage", "move", "path"}
UNITS = ("_seconds", "_bytes", "_total", "_records", "_offsets", "_ratio", "_ranges")
BARE = {  # numbers without a unit
    "cutover_stream_epoch",
    "cutover_stream_backpressured",
    "cutover_task_failed",
    "cutover_batch_epoch",
    "cutover_verify_check",
    "cutover_verify_violations",
    "cutover_gate_stage",
    "cutover_gate_allowed",
    "cutover_gate_conditions",
    "cutover_alert_firing",
    "cutover_watch_driver_alive",
}


@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_name_follows_the_conventions(name: str) -> None:
    family = FAMILIES[name]

    assert re.fullmatch(r"cutover_[a-z]+(_[a-z]+)+", name)
    assert name.endswith("_total") == (family.kind == "counter")
    assert name.endswith(UNITS) != (name in BARE)


@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_number_of_labels_is_bounded(name: str) -> None:
    assert set(FAMILIES[name].labels) <= LABELS
    assert FAMILIES[name].labels[0] == "pipeline"


@given(name=st.text(), alert=st.text(), value=st.floats(allow_nan=False))
def test_no_name_breaks_out_of_its_label(name: str, alert: str, value: float) -> None:
    try:
        (name + alert).encode()
    except UnicodeEncodeError:
        return  # half a character is in no name
    text = render_samples([MetricSample("cutover_alert_firing", (name, alert, "page"), value)])
    (family,) = text_string_to_metric_families(text)

    assert [(s.name, s.labels, s.value) for s in family.samples] == [
        ("cutover_alert_firing", {"pipeline": name, "alert": alert, "severity": "page"}, value)
    ]


def test_sample_of_an_unknown_family_is_rejected() -> None:
    with pytest.raises(KeyError):
        render_samples([MetricSample("cutover_of_nobody", ("p",), 1)])


def test_surplus_label_is_rejected() -> None:
    with pytest.raises(ValueError, match="zip"):
        render_samples([MetricSample("cutover_stream_epoch", ("p", "q"), 1)])
