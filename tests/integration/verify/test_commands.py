"""Output of the checks for people and producers: exit codes, the one JSON object, the oracle's answers."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cutover.cli import app
from tests.integration.streaming.rig import MINUTE
from tests.integration.verify.lab import ALL, EPOCHS, Lab, list_violated, of_class, rewrite, row_edit
from tests.support.oracle.records import Oracle, OracleRecord
from tests.support.oracle.verification import verify_with_oracle

DEFINITION = """
from cutover.definition import *
clicks = Pipeline(
    name="clicks",
    source=Topic(name="{topic}", event_time="at", time_format="millis",
                 schema="id bigint NOT NULL, k string, at timestamp NOT NULL"),
    where="k IS NULL OR k <> 'drop'",
    key=("k",), window=Fixed(minutes=10),
    measures={{"clicks": Count(), "ids": Sum("id"), "squares": Sum("id * id"), "newest": Max("id")}},
    lateness=Lateness(out_of_orderness="5 minutes", allowed="0 seconds"),
    max_rows_per_epoch=50,
)
"""


@pytest.fixture
def command(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """Return the lake as the command line finds it."""
    (tmp_path / "pipelines").mkdir()
    text = DEFINITION.format(topic=lab.lake.pipeline.source.name)
    (tmp_path / "pipelines" / "clicks.py").write_text(text, encoding="utf-8")
    monkeypatch.setenv("CUTOVER_HOME", str(lab.lake.settings.home))
    monkeypatch.setenv("CUTOVER_PIPELINES", str(tmp_path / "pipelines"))
    monkeypatch.setenv("CUTOVER_KAFKA__BOOTSTRAP_SERVERS", str(lab.lake.settings.kafka.bootstrap_servers))
    return lab


def test_the_command_exits_zero_where_all_holds(command: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.records

    exit_code = app.main(["verify", "clicks", "--json", "--all"])

    printed = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (exit_code, {check["check"]: check["state"] for check in printed["checks"]}) == (
        0,
        dict.fromkeys(sorted(ALL), "held"),
    )


@pytest.mark.quick
def test_the_command_exits_one_and_names_the_violation(command: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    rewrite(command, row_edit(of_class("accepted", 0), lambda row: [row, row]))

    exit_code = app.main(["verify", "clicks", "--only", "n1"])

    printed = " ".join(capsys.readouterr().out.split())
    assert exit_code == 1
    assert "Epoch 0 of clicks/" in printed
    assert "runbook docs/runbooks/InvariantBroken.md" in printed


@pytest.mark.parametrize("words", [["nowhere"], ["clicks", "--only", "N7"]])
def test_the_command_exits_two_where_it_cannot_tell(command: Lab, words: list[str]) -> None:
    assert command.records
    assert app.main(["verify", *words]) == 2


def expected_oracle() -> Oracle:
    """Return what the producer of these epochs knows: offsets rise by one in each partition."""
    ends, oracle_records = [0, 0], []
    for event in (event for events in EPOCHS for event in events):
        name = {100: "filtered", 101: "malformed", 102: "future"}.get(event.id, "accepted")
        start = event.micros // (10 * MINUTE) * 10 * MINUTE if name == "accepted" else None
        oracle_records.append((event, name, start, ends[event.partition]))
        ends[event.partition] += 1
    return Oracle(
        records=tuple(
            OracleRecord(
                id=event.id,
                outcome="acked",
                topic_id="",
                partition=event.partition,
                offset=offset,
                intended=name,
                window_start=start,
                key=(event.key,) if start is not None else (),
            )
            for event, name, start, offset in oracle_records
        )
    )


def change_first_record(lab: Lab, oracle: Oracle, **changes: Any) -> Oracle:
    """Return an oracle of this log; the first record is changed."""
    oracle_records = [replace(record, topic_id=lab.records[-1].topic_id) for record in oracle.records]
    return Oracle(records=(replace(oracle_records[0], **changes), *oracle_records[1:]))


def test_the_books_hold_exactly_what_the_producer_sent(lab: Lab) -> None:
    verification = verify_with_oracle(lab.lake, change_first_record(lab, expected_oracle()), only=["N1"])

    assert (verification.exit_code, verification.violations) == (0, ())


@pytest.mark.parametrize("changes", [{"outcome": "failed"}, {"outcome": "aborted"}, {"id": 7}, {"key": ("b",)}])
def test_a_record_that_is_not_where_its_producer_says_is_found(lab: Lab, changes: dict[str, Any]) -> None:
    verification = verify_with_oracle(lab.lake, change_first_record(lab, expected_oracle(), **changes), only=["N1"])

    assert list_violated(verification) == {"N1"}


def test_a_record_of_unknown_outcome_may_be_there(lab: Lab) -> None:
    verification = verify_with_oracle(
        lab.lake,
        change_first_record(lab, expected_oracle(), outcome="unknown", offset=None),
        only=["N1"],
    )

    assert verification.violations == ()
