"""`init` on unknown files: a definition that `produce` accepts, or the reason why there is none."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from cutover.cli.init import init, survey_topic
from cutover.errors import DefinitionError
from cutover.settings import Settings


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Return an installation without definitions."""
    return Settings(home=tmp_path / "home", pipelines=tmp_path / "pipelines")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id,id,at\n1,2,2026-01-01T00:00:00Z\n", "line 1: expected unique column names, got `id` twice"),
        ("a;b,c\n", "line 1: expected one delimiter, got a header that commas and semicolons split into 2 names each"),
        ("1,2026-01-01T00:00:00Z\n", "line 1: expected a header with names of columns, got `1`"),
        ("Export of May\nid,at\n1,2\n", r"line 2: expected 1 cell, got 2.*\n.*tail -n \+2"),
    ],
)
def test_invalid_csv_source_is_rejected_with_its_reason(
    settings: Settings, tmp_path: Path, text: str, message: str
) -> None:
    source = tmp_path / "source.csv"
    source.write_text(text, encoding="utf-8")

    with pytest.raises(DefinitionError, match=message):
        init(settings, "orders", str(source))

    assert not settings.pipelines.exists()


def test_a_time_that_no_path_accepts_is_a_text(settings: Settings, tmp_path: Path) -> None:
    source = tmp_path / "source.csv"
    source.write_text("k,at,until\na,2026-01-01T00:00:00Z,9999-12-31T00:00:00Z\n", encoding="utf-8")

    text = init(settings, "orders", str(source)).file.read_text(encoding="utf-8")

    assert "until string" in text


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param(("2026-03-02,1901-03-02", "2026-03-03,2026-03-03"), id="logged a century before it happened"),
        pytest.param(("8999-03-02,8999-03-02", "1000-03-02,8999-03-03"), id="logged millennia after it happened"),
    ],
)
def test_times_of_wrong_clocks_propose_no_longer_durations_than_a_definition_has(
    settings: Settings, tmp_path: Path, rows: tuple[str, ...]
) -> None:
    source = tmp_path / "source.csv"
    lines = (",".join(f"{day}T00:00:00Z" for day in row.split(",")) for row in rows)
    source.write_text("".join(f"{line}\n" for line in ("at,logged_at", *lines)), encoding="utf-8")

    text = init(settings, "orders", str(source)).file.read_text(encoding="utf-8")

    assert '"36500 days"' in text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[1, 2]]", "line 1: expected one JSON object, got an array"),
        ('{\n"at": 1,\n}', "line 3: expected JSON, got Expecting property name"),
        (
            '{"a": [{"x": 1}], "b": [{"x": 1}]}',
            r"expected one array of records.*`a` \(1\), `b` \(1\).*\n.*jq -c '.a\[\]'",
        ),
        ('{"payload": {"at": 1}, "n": 1}\n', "omitted: `payload`, it is nested.*\n.*Unix times"),
        ('{"ts": "1772409600000"}\n', r"ts \(string: Unix milliseconds as text"),
        ('{"ts": 1772409600.25}\n', r"ts \(double: Unix seconds with a fraction"),
        ('{"at": "2026-01-01T00:00:00Z"}\n{"at": 5}\n', "no type accepts both .*line 1.* and 5 .line 2."),
    ],
)
def test_invalid_json_source_is_rejected_with_its_reason(
    settings: Settings, tmp_path: Path, text: str, message: str
) -> None:
    source = tmp_path / "source.json"
    source.write_text(text, encoding="utf-8")

    with pytest.raises(DefinitionError, match=message):
        init(settings, "orders", str(source))


def test_a_column_whose_name_is_no_identifier_is_renamed(settings: Settings, tmp_path: Path) -> None:
    source = tmp_path / "source.csv"
    source.write_text("größe,at\na,2026-01-01T00:00:00Z\n", encoding="utf-8")

    text = init(settings, "orders", str(source)).file.read_text(encoding="utf-8")

    assert "`grosse` is the column `größe` of the file." in text


def test_a_topic_of_many_partitions_is_read_from_each(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """With 2,000 partitions, a thousand records are fewer than one per partition."""
    client = SimpleNamespace(
        earliest=lambda _: dict.fromkeys(range(2_000), 0),
        latest=lambda _: dict.fromkeys(range(2_000), 7),
        read_range=lambda _topic, _partition, start, end: [
            SimpleNamespace(offset=offset, value=b'{"at": "2026-01-01T00:00:00Z"}') for offset in range(start, end)
        ],
    )
    monkeypatch.setattr("cutover.cli.init.LogClient", lambda _: client)

    assert survey_topic(settings, "wide").rows == 2_000
