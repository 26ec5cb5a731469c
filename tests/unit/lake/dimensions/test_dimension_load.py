"""A file becomes a version of a dimension: typed by rules, keys checked, nothing lost on the way."""

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyarrow import parquet

from cutover.cli.app import main
from cutover.errors import DefinitionError
from cutover.lake.dimensions.load import load
from cutover.settings import Settings

CSV = "ad,budget,since,live\n007,1.50,2020-01-31 23:59:59.5,true\n8,,,\n"
SCHEMA = "budget decimal(4,2), since timestamp, live boolean"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path)


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    (tmp_path / "ads.csv").write_text(CSV, encoding="utf-8")
    return tmp_path / "ads.csv"


def test_text_stays_text_and_other_types_are_those_that_are_asked_for(settings: Settings, csv: Path) -> None:
    done = load(settings, "ads", csv, key=["ad"], schema=SCHEMA)

    found = DeltaTable(done.uri).to_pyarrow_table().to_pylist()
    since = datetime(2020, 1, 31, 23, 59, 59, 500_000, UTC)
    assert found == [
        {"ad": "007", "budget": Decimal("1.50"), "since": since, "live": True},
        {"ad": "8", "budget": None, "since": None, "live": None},
    ]
    assert (done.version, done.rows) == (0, 2)


def test_a_later_file_has_the_types_of_the_version_before(settings: Settings, csv: Path) -> None:
    load(settings, "ads", csv, schema=SCHEMA)
    parquet.write_table(pa.table({"ad": ["x"], "budget": [1]}), csv.with_suffix(".parquet"))

    assert load(settings, "ads", csv).columns["budget"] == "decimal(4,2)"
    with pytest.raises(DefinitionError, match=r"column `budget`: expected decimal\(4,2\), as the version before"):
        load(settings, "ads", csv.with_suffix(".parquet"))


@pytest.mark.parametrize(
    ("text", "key", "schema", "expected"),
    [
        ("ad\na\na\n", ["ad"], None, r"expected each key \(ad\) once and none null, got 1 that stand"),
        ("ad,b\na,1\n,2\n", ["ad"], None, "0 that stand more than once and 1 rows with a null"),
        ("ad\na\n", ["add"], None, "`--key`: expected columns of ad, got `add`"),
        ("ad\n1.234\n", [], "ad decimal(4,2)", r"expected decimal\(4,2\) in its plain form, got 1 cells"),
        ("ad\n1.5\n", [], "ad int", "column `ad`: expected int in its plain form, got 1 cells"),
        ("ad\na\n", [], "aid int", "expected a column `aid`, as the schema has it, got ad"),
        ("a d\nx\n", [], None, "expected letters, digits"),
    ],
)
def test_a_file_that_does_not_fit_writes_nothing(
    settings: Settings, csv: Path, text: str, key: list[str], schema: str | None, expected: str
) -> None:
    csv.write_text(text, encoding="utf-8")

    with pytest.raises(DefinitionError, match=expected):
        load(settings, "ads", csv, key=key, schema=schema)

    assert not (Path(settings.lake_uri) / "dimensions").exists()


def test_command_says_version_and_columns(
    tmp_path: Path, csv: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CUTOVER_HOME", str(tmp_path))

    code = main(["dimension", "load", "ads", str(csv), "--key", "ad"])

    assert (code, capsys.readouterr().out) == (
        0,
        "ads: version 0, 2 rows (ad string, budget string, since string, live string)\n",
    )
