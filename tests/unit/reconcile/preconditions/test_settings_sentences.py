"""Messages on differing settings: epochs, side, item, and the remedy."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from cutover.definition import Count, Fixed, Pipeline, Topic
from cutover.engine import readback
from cutover.engine.effective_settings import EffectiveSettings
from cutover.lake.batch_runs import BatchRun
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.reconcile.preconditions import checks
from cutover.reconcile.preconditions.checks import SettingsOfSides
from tests.unit.reconcile.attribution.indexed import make_run
from tests.unit.verify.epochs import epoch

PIPELINE = Pipeline(
    name="clicks",
    source=Topic(name="clicks", schema="at timestamp NOT NULL", event_time="at"),
    key=(),
    window=Fixed(hours=1),
    measures={"clicks": Count()},
)
US, TR = EffectiveSettings({"jvm": {"locale": "en_US"}}), EffectiveSettings({"jvm": {"locale": "tr_TR"}})
STREAM = (
    "one version of the stream holds epochs of both. `cutover replay clicks --into <next version>` builds one under"
    " what is in force now; `cutover savepoint clicks fork --epoch {}` returns to that epoch."
)
SIDE = (
    "run all three under one installation. `cutover batch clicks` recomputes all that the log still holds once its"
    " settings have changed; `cutover replay clicks --into <next version>` does so for the stream."
)
LOCALE = "Setting in force, jvm `locale`: expected one value, got several:"


def records(*ran: EffectiveSettings | None) -> list[EpochRecord]:
    return [
        epoch(number, in_force=None if settings is None else settings.digest) for number, settings in enumerate(ran)
    ]


def list_messages(
    epochs: Sequence[EpochRecord],
    *,
    batch: EffectiveSettings | None = US,
    session: EffectiveSettings = US,
    known_settings: Sequence[EffectiveSettings] = (US, TR),
) -> list[str]:
    by_digest = {settings.digest: settings for settings in known_settings}
    settings_of_sides = SettingsOfSides(
        pipeline="clicks", by_digest=by_digest, batch="batch-1", by_batch=batch, of_process=session
    )
    return list(checks.list_differences(epochs, settings_of_sides))


def test_epochs_of_one_version_that_ran_apart_are_named_by_their_stretches() -> None:
    (message,) = list_messages(records(US, US, TR, US, US))

    assert message == (
        f"{LOCALE} the stream in epochs 0 to 1 and the stream in epochs 3 to 4 ran with `en_US`;"
        f" the stream in epoch 2 ran with `tr_TR`.\nHint: {STREAM.format(1)}"
    )


@pytest.mark.parametrize(
    ("batch", "session", "ran"),
    [
        (TR, US, "batch run batch-1 ran with `tr_TR`; the stream in epoch 0 and this comparison ran with `en_US`."),
        (US, TR, "batch run batch-1 and the stream in epoch 0 ran with `en_US`; this comparison ran with `tr_TR`."),
    ],
)
def test_a_side_with_different_settings_is_named_with_the_others(
    batch: EffectiveSettings, session: EffectiveSettings, ran: str
) -> None:
    assert list_messages(records(US), batch=batch, session=session) == [f"{LOCALE} {ran}\nHint: {SIDE}"]


def test_batch_is_named_with_the_version_that_is_compared() -> None:
    settings_of_sides = SettingsOfSides(
        pipeline="clicks", by_digest={US.digest: US}, batch="batch-1", by_batch=TR, of_process=US, version=2
    )

    (text,) = checks.list_differences(records(US), settings_of_sides)

    assert "`cutover batch clicks --version 2`" in text


def test_an_item_that_differs_between_epochs_is_named_only_once() -> None:
    zone = EffectiveSettings({"jvm": {"locale": "tr_TR", "zone": "UTC"}})
    mixed = EffectiveSettings({"jvm": {"locale": "tr_TR", "zone": "Asia/Kolkata"}})
    session = EffectiveSettings({"jvm": {"locale": "en_US", "zone": "UTC"}})

    messages = list_messages(records(zone, session), batch=mixed, session=session, known_settings=(zone, session))

    assert [text.partition(":")[0] for text in messages] == [
        "Setting in force, jvm `locale`",
        "Setting in force, jvm `zone`",
    ]
    assert messages[0].endswith(STREAM.format(0))
    assert messages[1].endswith(SIDE)


def test_the_same_settings_are_not_named() -> None:
    assert list_messages(records(US, US)) == []


def test_unrecorded_settings_are_named_and_nothing_else_is_compared() -> None:
    (message,) = list_messages(records(US, None, TR), known_settings=(US,), batch=None, session=TR)

    assert message == (
        "Settings in force: expected every epoch and run to record them,"
        " got none of the stream in epoch 1, the stream in epoch 2, batch run batch-1."
    )


def test_epochs_without_records_have_no_settings_to_compare() -> None:
    tick = replace(epoch(1, in_force=None), start={0: 10, 1: 10}, end={0: 10, 1: 10})

    assert list_messages([*records(US), tick]) == []
    assert list_messages([tick], batch=None) == []


def many(value: str, number: int) -> EffectiveSettings:
    return EffectiveSettings({"spark": {f"item.{n:02}": value for n in range(number)}})


@pytest.mark.parametrize(("number", "more"), [(12, []), (13, ["1"]), (15, ["3"])])
def test_twelve_items_are_named_and_the_others_counted(number: int, more: list[str]) -> None:
    messages = list(checks.list_session_differences(PIPELINE, many("a", number), many("b", number)))

    named_items = [text.partition("`: ")[0] for text in messages[:12]]
    assert named_items == [f"Setting in force, spark `item.{n:02}" for n in range(12)]
    assert messages[12:] == [f"Settings in force: {n} more items differ." for n in more]


def test_settings_of_a_folding_session_are_compared_with_batch() -> None:
    assert list(checks.list_session_differences(PIPELINE, US, TR)) == [
        f"{LOCALE} batch ran with `en_US`; this comparison's session ran with `tr_TR`.\nHint: {SIDE}"
    ]
    assert list(checks.list_session_differences(PIPELINE, US, US)) == []
    assert list(checks.list_session_differences(PIPELINE, None, US)) == []  # the settings of batch are unknown


def test_settings_come_from_epochs_run_and_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readback, "read_process_settings", lambda definition: US if definition is PIPELINE else TR)
    epochs = [epoch(0, in_force=US.digest, in_force_items=US.families), epoch(1, in_force=US.digest)]
    runs: list[BatchRun] = [
        make_run("a", in_force=TR.digest, in_force_items=TR.families),
        make_run("b", in_force=TR.digest),
    ]

    settings_of_sides = checks.read_settings(PIPELINE, epochs, runs, runs[1])

    assert settings_of_sides == SettingsOfSides(
        pipeline="clicks", by_digest={US.digest: US}, batch="b", by_batch=TR, of_process=US
    )


def list_schema_messages(
    *, batch: Mapping[str, str], here: Mapping[str, str], earlier_is_anew: bool = False
) -> list[str]:
    runs = [make_run("a", schemas={"3": "old"}), make_run("b", schemas=batch, anew=earlier_is_anew)]
    settings_of_sides = checks.read_settings(PIPELINE, [], runs, runs[1], here)
    epochs = [epoch(0), epoch(1, schemas={"1": "aa"}), epoch(2, schemas={"1": "aa", "2": "bb"})]
    return list(checks.list_schema_differences(epochs, settings_of_sides))


def test_a_schema_that_only_one_side_has_met_is_no_difference() -> None:
    assert list_schema_messages(batch={"2": "bb"}, here={"9": "zz"}) == []


def test_an_id_with_two_schemas_is_named_with_both_sides() -> None:
    (message,) = list_schema_messages(batch={"1": "aa", "2": "cc"}, here={})

    assert message.startswith(
        "Schema 2 of the registry: expected one schema, got several: epoch 2 decoded by `bb`;"
        " batch run b decoded by `cc`."
    )
    assert "this comparison decoded by `xx`" in list_schema_messages(batch={}, here={"1": "xx"})[0]


def test_runs_before_one_that_computed_everything_anew_do_not_count() -> None:
    assert list_schema_messages(batch={"3": "new"}, here={}, earlier_is_anew=True) == []
    assert len(list_schema_messages(batch={"3": "new"}, here={})) == 1
