"""Loading a file as a version of a dimension: types, keys, and unchanged text."""

import gzip
import json
import re
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyarrow import parquet

from cutover.cli.app import main
from cutover.errors import DefinitionError
from cutover.lake.dimensions.dimension import own_uri
from cutover.lake.dimensions.load import list_dimension_versions, load_dimension, roll_back_dimension
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


def test_text_stays_text_and_other_types_follow_the_schema(settings: Settings, csv: Path) -> None:
    loaded = load_dimension(settings, "ads", csv, key=["ad"], schema=SCHEMA)

    rows = DeltaTable(loaded.uri).to_pyarrow_table().to_pylist()
    timestamp = datetime(2020, 1, 31, 23, 59, 59, 500_000, UTC)
    assert rows == [
        {"ad": "007", "budget": Decimal("1.50"), "since": timestamp, "live": True},
        {"ad": "8", "budget": None, "since": None, "live": None},
    ]
    assert (loaded.version, loaded.rows) == (0, 2)


def test_a_later_file_has_the_types_of_the_version_before(settings: Settings, csv: Path) -> None:
    load_dimension(settings, "ads", csv, schema=SCHEMA)
    parquet.write_table(pa.table({"ad": ["x"], "budget": [1]}), csv.with_suffix(".parquet"))

    assert load_dimension(settings, "ads", csv).columns["budget"] == "decimal(4,2)"
    with pytest.raises(DefinitionError, match=r"column `budget`: expected decimal\(4,2\), as in the previous version"):
        load_dimension(settings, "ads", csv.with_suffix(".parquet"))


@pytest.mark.parametrize(
    ("text", "key", "schema", "expected"),
    [
        ("ad\na\na\n", ["ad"], None, r"expected each key \(ad\) once and none null, got 1 that occur"),
        ("ad,b\na,1\n,2\n", ["ad"], None, "0 that occur more than once and 1 row with a null"),
        ("ad\na\n", ["add"], None, "`--key`: expected columns of ad, got `add`"),
        ("ad\n1.234\n", [], "ad decimal(4,2)", r"line 2, column `ad`: expected decimal\(4,2\), got 1\.234\."),
        (
            "ad,b\n1,x\n1.5,y\nz,\n",
            [],
            "ad int",
            r"line 3, column `ad`: expected int, got 1\.5; 1 other cell does not fit",
        ),
        ("ad\n2020-01-31T10:00Z\n", [], "ad timestamp", r"line 2, .*ISO 8601 with no seconds"),
        ("ad,b\n1\n", [], None, "line 2: expected 2 cells, got 1"),
        ("ad;b,c\n", [], None, "line 1: expected one delimiter, got a header that commas and semicolons split"),
        ("ad\na\n", [], "aid int", "expected a column `aid`, as the schema has it, got ad"),
        ("a d\nx\n", [], None, "expected letters, digits"),
    ],
)
def test_an_invalid_file_writes_nothing(
    settings: Settings, csv: Path, text: str, key: list[str], schema: str | None, expected: str
) -> None:
    csv.write_text(text, encoding="utf-8")

    with pytest.raises(DefinitionError, match=expected):
        load_dimension(settings, "ads", csv, key=key, schema=schema)

    assert not (Path(settings.lake_uri) / "dimensions").exists()


def test_text_arrives_byte_for_byte_and_from_a_packed_file(settings: Settings, tmp_path: Path) -> None:
    packed = tmp_path / "ads.csv.gz"
    packed.write_bytes(gzip.compress(b'\xef\xbb\xbfad,note\r\n1,"a\r\nb"\r\n2," #x\t"\r\n3,\r\n'))

    loaded = load_dimension(settings, "ads", packed, schema="ad int")

    rows = DeltaTable(loaded.uri).to_pyarrow_table().sort_by("ad").to_pylist()
    assert rows == [{"ad": 1, "note": "a\r\nb"}, {"ad": 2, "note": " #x\t"}, {"ad": 3, "note": None}]


def test_command_prints_version_and_columns(
    tmp_path: Path, csv: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CUTOVER_HOME", str(tmp_path))

    code = main(["dimension", "load", "ads", str(csv), "--key", "ad"])

    assert (code, capsys.readouterr().out) == (
        0,
        "ads: version 0, 2 rows (ad string, budget string, since string, live string)\n",
    )


FULL = "ad,campaign\n" + "".join(f"{number},c{number % 3}\n" for number in range(10))
KEEPS_FIVE = FULL[: FULL.index("5,")] + "".join(f"{number},\n" for number in range(5, 10))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ad,campaign\n", "version 0 has 10 rows), got 0 rows: it has no rows"),
        (FULL[: FULL.index("5,")], "got 5 rows: 5 rows fewer"),
        (FULL.replace("\n", "\nx")[:-1], r"got 10 rows: 10 of 10 keys (ad) are not in it"),
        ("ad,campaign\n" + "".join(f"{n},\n" for n in range(10)), "column `campaign` had 10 values and has 0"),
        (KEEPS_FIVE, "got 10 rows: column `campaign` had 10 values and has 5"),
        (FULL[: FULL.index("5,")], "5 rows fewer; 5 of 10 keys (ad) are not in it."),
    ],
)
def test_a_file_that_lacks_many_rows_is_rejected_until_confirmed(
    settings: Settings, csv: Path, text: str, expected: str
) -> None:
    csv.write_text(FULL, encoding="utf-8")
    load_dimension(settings, "ads", csv, key=["ad"])
    csv.write_text(text, encoding="utf-8")

    with pytest.raises(DefinitionError, match=re.escape(expected)) as caught:
        load_dimension(settings, "ads", csv, key=["ad"])

    assert "`cutover dimension show ads`" in str(caught.value)
    assert "`--confirm`" in str(caught.value)
    assert DeltaTable(own_uri(settings, "ads")).version() == 0
    assert load_dimension(settings, "ads", csv, key=["ad"], joined=None).version == 1


def test_a_file_with_few_changes_is_a_new_version(settings: Settings, csv: Path) -> None:
    csv.write_text(FULL, encoding="utf-8")
    load_dimension(settings, "ads", csv, key=["ad"])
    csv.write_text(FULL[: FULL.index("6,")] + "new,\n", encoding="utf-8")

    assert load_dimension(settings, "ads", csv, key=["ad"]).rows == 7


def test_a_sparse_column_may_lose_one_of_its_few_values(settings: Settings, csv: Path) -> None:
    keys = "".join(f"{n},\n" for n in range(2, 400))
    csv.write_text(f"ad,campaign\n0,spring\n1,summer\n{keys}", encoding="utf-8")
    load_dimension(settings, "ads", csv)
    csv.write_text(f"ad,campaign\n0,spring\n1,\n{keys}", encoding="utf-8")

    assert load_dimension(settings, "ads", csv).rows == 400


def test_rows_that_are_lost_in_several_loads_need_a_confirmation_once(settings: Settings, csv: Path) -> None:
    def load(rows: int, *, confirm: bool = False) -> int:
        csv.write_text("ad\n" + "".join(f"{n}\n" for n in range(rows)), encoding="utf-8")
        return load_dimension(settings, "ads", csv, key=["ad"], joined=None if confirm else ()).version

    assert [load(20), load(11)] == [0, 1]
    with pytest.raises(DefinitionError, match=r"version 1 has 11 rows\), got 10 rows: 10 rows fewer than version 0\."):
        load(10)
    assert [load(6, confirm=True), load(4), load(5)] == [2, 3, 4]
    with pytest.raises(DefinitionError, match="got 3 rows: 3 rows fewer than version 2"):
        load(3)


def test_keys_of_pipelines_are_compared_by_default(settings: Settings, csv: Path) -> None:
    csv.write_text(FULL, encoding="utf-8")
    load_dimension(settings, "ads", csv)
    csv.write_text(FULL.replace(",c", ",d").replace(",dampaign", ",campaign"), encoding="utf-8")

    with pytest.raises(DefinitionError, match=r"3 of 3 keys \(campaign\)"):
        load_dimension(settings, "ads", csv, joined=[("campaign",)])


OTHERS = FULL.replace("\n", "\nx")[:-1]  # every key is another one


def test_the_key_of_the_previous_load_is_the_default(settings: Settings, csv: Path) -> None:
    csv.write_text(FULL, encoding="utf-8")
    load_dimension(settings, "ads", csv, key=["ad"])
    load_dimension(settings, "ads", csv)
    csv.write_text(OTHERS, encoding="utf-8")

    with pytest.raises(DefinitionError, match=r"10 of 10 keys \(ad\) are not in it"):
        load_dimension(settings, "ads", csv)
    with pytest.raises(DefinitionError, match=r"10 of 10 keys \(ad\) are not in it"):
        load_dimension(settings, "ads", csv, key=[])
    csv.write_text(FULL + "9,c0\n", encoding="utf-8")
    with pytest.raises(DefinitionError, match=r"each key \(ad\) once .*got 1 that occur"):
        load_dimension(settings, "ads", csv, joined=None)

    assert load_dimension(settings, "ads", csv, key=[]).version == 2
    assert [version.key for version in list_dimension_versions(settings, "ads", limit=9)] == [(), ("ad",), ("ad",)]


def test_the_key_of_the_previous_load_survives_a_foreign_commit(settings: Settings, csv: Path) -> None:
    csv.write_text(FULL, encoding="utf-8")
    load_dimension(settings, "ads", csv, key=["ad"])
    table = DeltaTable(own_uri(settings, "ads"))
    table.alter.set_table_properties({"delta.logRetentionDuration": "interval 31 days"})
    csv.write_text(OTHERS, encoding="utf-8")

    with pytest.raises(DefinitionError, match=r"version 1 has 10 rows.*10 of 10 keys \(ad\)"):
        load_dimension(settings, "ads", csv)
    assert [version.key for version in list_dimension_versions(settings, "ads", limit=9)] == [None, ("ad",)]


def test_a_key_missing_from_the_log_must_be_named(settings: Settings, csv: Path) -> None:
    csv.write_text(FULL, encoding="utf-8")
    load_dimension(settings, "ads", csv, key=["ad"])
    load_dimension(settings, "ads", csv)
    table = DeltaTable(own_uri(settings, "ads"))
    table.alter.set_table_properties({"delta.logRetentionDuration": "interval 31 days"})
    DeltaTable(own_uri(settings, "ads")).create_checkpoint()
    for version in (0, 1):
        (Path(own_uri(settings, "ads")) / "_delta_log" / f"{version:020}.json").unlink()

    with pytest.raises(DefinitionError, match=r"`--key COLUMNS`, or `--key ''`"):
        load_dimension(settings, "ads", csv)
    assert load_dimension(settings, "ads", csv, key=["ad"]).version == 3


@pytest.mark.parametrize(
    ("text", "lost_keys"),
    [
        pytest.param(OTHERS, "10 of 10 keys (ad)", id="other values in the only unique column"),
        pytest.param(
            OTHERS.replace(",c", ",d").replace("dampaign", "campaign"),
            "10 of 10 keys (ad)",
            id="other values in all columns",
        ),
        pytest.param(FULL.replace(",c", ",d").replace(",dampaign", ",campaign"), None, id="in another column"),
        pytest.param(FULL.replace("9,", "x9,"), None, id="one other value"),
    ],
)
def test_a_dimension_without_a_key_is_compared_by_its_unique_columns(
    settings: Settings, csv: Path, text: str, lost_keys: str | None
) -> None:
    csv.write_text(FULL, encoding="utf-8")
    load_dimension(settings, "ads", csv)
    csv.write_text(text, encoding="utf-8")

    if lost_keys is None:
        assert load_dimension(settings, "ads", csv).version == 1
    else:
        with pytest.raises(DefinitionError, match=re.escape(lost_keys)):
            load_dimension(settings, "ads", csv)


def test_a_dimension_without_a_unique_column_must_keep_values_of_one_column(settings: Settings, csv: Path) -> None:
    csv.write_text("ad,campaign\n1,a\n1,b\n2,a\n2,b\n", encoding="utf-8")
    load_dimension(settings, "ads", csv)
    csv.write_text("ad,campaign\n8,a\n8,b\n9,a\n9,b\n", encoding="utf-8")
    load_dimension(settings, "ads", csv)
    csv.write_text("ad,campaign\n1,x\n1,y\n2,x\n2,y\n", encoding="utf-8")

    with pytest.raises(DefinitionError, match=r"2 of 2 keys \(ad\)"):
        load_dimension(settings, "ads", csv)


def test_a_rollback_compares_by_the_key_of_the_previous_load(settings: Settings, csv: Path) -> None:
    csv.write_text(OTHERS + "1,c1\n1,c1\n", encoding="utf-8")
    load_dimension(settings, "ads", csv)
    csv.write_text(OTHERS, encoding="utf-8")
    load_dimension(settings, "ads", csv)
    csv.write_text(FULL, encoding="utf-8")
    load_dimension(settings, "ads", csv, key=["ad"], joined=None)

    with pytest.raises(DefinitionError, match=r"each key \(ad\) once .*got 1 that occur"):
        roll_back_dimension(settings, "ads", 0)
    with pytest.raises(DefinitionError, match=r"version 2 has 10 rows.*10 of 10 keys \(ad\)"):
        roll_back_dimension(settings, "ads", 1)
    assert roll_back_dimension(settings, "ads", 0, joined=None).rows == 12
    assert list_dimension_versions(settings, "ads", limit=1)[0].key == ()


@pytest.mark.parametrize("version", [3, 99])
def test_a_missing_version_is_rejected_with_the_existing_ones(settings: Settings, csv: Path, version: int) -> None:
    csv.write_text(FULL, encoding="utf-8")
    for _ in range(3):
        load_dimension(settings, "ads", csv, key=["ad"])

    with pytest.raises(DefinitionError) as caught:
        roll_back_dimension(settings, "ads", version)

    assert (f"got {version}" in str(caught.value), "(0 to 1)" in str(caught.value)) == (True, True)
    assert "`cutover dimension show ads`" in str(caught.value)
    assert caught.value.runbook is None


def test_a_first_file_without_rows_is_rejected(settings: Settings, csv: Path) -> None:
    csv.write_text("ad\n", encoding="utf-8")

    with pytest.raises(DefinitionError, match="no previous version"):
        load_dimension(settings, "ads", csv)
    assert load_dimension(settings, "ads", csv, joined=None).rows == 0


def test_an_older_version_is_current_after_a_rollback(settings: Settings, csv: Path) -> None:
    csv.write_text(FULL, encoding="utf-8")
    load_dimension(settings, "ads", csv, key=["ad"])
    csv.write_text("ad,campaign\n", encoding="utf-8")
    load_dimension(settings, "ads", csv, joined=None)

    rolled_back = roll_back_dimension(settings, "ads", 0)

    assert (rolled_back.version, rolled_back.rows) == (2, 10)
    versions = list_dimension_versions(settings, "ads", limit=10)
    assert [(version.version, version.rows, version.source) for version in versions] == [
        (2, 10, "version 0"),
        (1, 0, "ads.csv"),
        (0, 10, "ads.csv"),
    ]
    with pytest.raises(DefinitionError, match="expected a version before the current one"):
        roll_back_dimension(settings, "ads", 2)


def test_the_commands_show_versions_and_roll_back(
    settings: Settings, csv: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CUTOVER_HOME", str(settings.home))
    csv.write_text(FULL, encoding="utf-8")
    assert main(["dimension", "load", "ads", str(csv), "--key", "ad"]) == 0
    csv.write_text("ad,campaign\n", encoding="utf-8")
    assert main(["dimension", "load", "ads", str(csv)]) == 2
    assert main(["dimension", "rollback", "ads", "--version", "99"]) == 2
    assert main(["dimension", "load", "ads", str(csv), "--confirm"]) == 0
    capsys.readouterr()

    assert main(["dimension", "show", "ads", "--json"]) == 0
    output = json.loads(capsys.readouterr().out)
    assert [(version["version"], version["rows"]) for version in output["versions"]] == [(1, 0), (0, 10)]

    assert main(["dimension", "rollback", "ads", "--version", "0"]) == 0
    capsys.readouterr()
    assert main(["dimension", "show", "ads", "--rows", "2"]) == 0
    stdout = capsys.readouterr().out
    assert "version 0" in stdout
    assert "c1" in stdout
