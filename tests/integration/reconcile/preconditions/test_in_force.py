"""One setting in force that was not the same everywhere: NOT_COMPARABLE, the item, both values, nothing counted."""

from dataclasses import replace

import pytest

from cutover.engine import effective_settings, queries, readback
from cutover.engine.effective_settings import EffectiveSettings
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.preconditions.checks import list_session_differences
from cutover.reconcile.result.finding import Verdict
from cutover.reconcile.result.report import Report
from cutover.settings import Settings
from tests.integration.reconcile.lake_of import PIPELINE, Lake, Sale, in_force, lake_of, reconcile, write

SALES = tuple(Sale(epoch=i % 4, hour=i % 5, shop=("a", None)[i % 2], amount=i) for i in range(40))

ITEMS = [
    ("spark", "spark.sql.session.timeZone", "Europe/Berlin"),
    ("spark", "spark.sql.ansi.enabled", "false"),
    ("spark", "spark.sql.legacy.timeParserPolicy", "LEGACY"),
    ("spark", "spark.sql.legacy.made.up", "true"),
    ("jvm", "locale", "tr_TR"),
    ("jvm", "time zone", "Asia/Kolkata"),
    ("records", "json allowSingleQuotes", "true"),
    ("records", "max_ahead", "(event > 5L)"),
    ("versions", "duckdb", "9.9.9"),
    ("duckdb", "TimeZone", "Europe/Berlin"),
    ("code", "cutover.records.classify", "000000000000"),
]
SIDES = ("batch", "stream", "later epochs")


def change_setting(family: str, name: str, value: str) -> EffectiveSettings:
    families = in_force().families
    return EffectiveSettings({**families, family: {**families[family], name: value}})


def by_stream(lake: Lake, drifted: EffectiveSettings, *, first_epoch: int) -> Lake:
    epochs = (
        replace(e, in_force=drifted.digest, in_force_items=drifted.families) if e.epoch >= first_epoch else e
        for e in lake.epochs
    )
    return replace(lake, epochs=tuple(epochs))


def by_batch(lake: Lake, drifted: EffectiveSettings | None) -> Lake:
    items = None if drifted is None else drifted.families
    digest = None if drifted is None else drifted.digest
    return replace(lake, run=replace(lake.run, in_force=digest, in_force_items=items))


def texts(result: Report) -> list[str]:
    assert (result.finding.verdict, result.finding.exit_code, result.finding.runbook) == (
        Verdict.NOT_COMPARABLE,
        2,
        "SealBroken",
    )
    assert result.finding.rows == type(result.finding.rows)()  # no count of a difference
    assert {cause.rows for cause in result.finding.causes.values()} == {0}
    return [breach.message for breach in result.finding.seal.breaches if breach.code == "settings"]


@pytest.mark.parametrize(
    ("family", "name", "value", "side"),
    [(*item, SIDES[turn % len(SIDES)]) for turn, item in enumerate(ITEMS)],
)
def test_a_drift_is_named_with_item_and_both_values(
    settings: Settings, family: str, name: str, value: str, side: str
) -> None:
    drifted, lake = change_setting(family, name, value), lake_of(SALES)
    write(
        settings,
        by_batch(lake, drifted) if side == "batch" else by_stream(lake, drifted, first_epoch=2 * (side != "stream")),
    )
    expected = in_force().families[family].get(name, "not set")

    messages = texts(reconcile(PipelineLake(settings, PIPELINE)))

    assert len(messages) == 1
    assert all(
        text in messages[0] for text in (f"{family} `{name}`", f"`{value}`", f"`{expected}`", "cutover replay sales")
    )
    assert ("the stream in epochs 0 to 1 ran with" in messages[0]) == (side == "later epochs")


def test_the_same_setting_on_both_paths_is_no_drift(settings: Settings) -> None:
    drifted = change_setting("jvm", "locale", "tr_TR")
    write(settings, by_batch(by_stream(lake_of(SALES), drifted, first_epoch=0), drifted))

    assert reconcile(PipelineLake(settings, PIPELINE)).finding.verdict is Verdict.CONSISTENT


@pytest.mark.parametrize("family", ["code", "duckdb", "records", "versions"])
def test_a_comparison_that_itself_runs_with_something_else_says_so(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, family: str
) -> None:
    name = next(iter(in_force().families[family]))
    elsewhere = change_setting(family, name, "elsewhere")
    write(settings, lake_of(SALES))
    monkeypatch.setattr(
        readback,
        "read_process_settings",
        lambda _: EffectiveSettings({family: elsewhere.families[family]}),
    )

    (message,) = texts(reconcile(PipelineLake(settings, PIPELINE)))

    assert f"{family} `{name}`" in message
    assert "this comparison ran with `elsewhere`" in message


@pytest.mark.parametrize("side", ["batch", "stream"])
def test_settings_that_were_never_recorded_are_no_agreement(settings: Settings, side: str) -> None:
    lake = lake_of(SALES)
    unsaid = tuple(replace(e, in_force=None, in_force_items=None) for e in lake.epochs)
    write(settings, by_batch(lake, None) if side == "batch" else replace(lake, epochs=unsaid))

    (message,) = texts(reconcile(PipelineLake(settings, PIPELINE)))

    assert "batch run batch-1" in message if side == "batch" else "the stream in epochs 0 to 3" in message


def test_an_epoch_without_records_has_no_say(settings: Settings) -> None:
    lake = lake_of(SALES)
    last_epoch = lake.epochs[-1]
    tick = replace(
        last_epoch, epoch=4, start=last_epoch.end, counts={}, records=0, in_force="else", in_force_items={}, tick=True
    )
    run = replace(lake.run, epoch=4)
    batch = tuple(row | {"_epoch": 4} for row in lake.batch)
    write(settings, replace(lake, epochs=(*lake.epochs, tick), run=run, batch=batch, transaction=4))

    assert reconcile(PipelineLake(settings, PIPELINE)).finding.verdict is Verdict.CONSISTENT


def test_duckdb_is_read_back_from_the_connection_that_folds(monkeypatch: pytest.MonkeyPatch) -> None:
    connect = queries.open_duckdb

    def elsewhere() -> object:
        connection = connect()
        connection.execute("SET TimeZone = 'Asia/Kolkata'")
        return connection

    monkeypatch.setattr(queries, "open_duckdb", elsewhere)

    assert readback.read_process_settings(PIPELINE).families["duckdb"]["TimeZone"] == "Asia/Kolkata"


def test_every_pinned_conf_is_compared() -> None:
    assert (
        effective_settings.PINNED.keys()
        <= effective_settings.select_relevant_confs({**effective_settings.PINNED, "spark.app.name": "x"}).keys()
    )


def test_a_session_that_folds_windows_anew_is_held_to_the_same_settings() -> None:
    other = change_setting("spark", "spark.sql.session.timeZone", "Europe/Berlin")

    (text,) = list_session_differences(PIPELINE, in_force(), other)

    assert list(list_session_differences(PIPELINE, in_force(), in_force())) == []
    assert "this comparison's session ran with `Europe/Berlin`" in text
