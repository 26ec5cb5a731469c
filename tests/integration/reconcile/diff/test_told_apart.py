"""Tables that differ where an engine sees no difference: types whose hashes or doubles collide, names, file names."""

from collections.abc import Mapping
from pathlib import Path

import duckdb
import pytest

from cutover.errors import DefinitionError, LakeError
from cutover.reconcile.external.request import DiffRequest, Tolerance
from cutover.reconcile.external.tables import compare_tables
from cutover.reconcile.result.finding import Rows, Verdict
from cutover.reconcile.result.report import Report


def query(path: Path, sql: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    duckdb.execute(f"COPY ({sql}) TO '{path}'")
    return path


def text(path: Path, body: str) -> Path:
    path.write_text(body, encoding="utf-8")
    return path


def compare(path: Path, right: Path, **tolerances: Tolerance) -> Report:
    return compare_tables(DiffRequest(expected=str(path), actual=str(right), key=("k",), tolerances=tolerances), None)


CSV_PAIRS: Mapping[str, tuple[str, str, Verdict]] = {
    "a cent": ("12345678.91", "12345678.92", Verdict.DIVERGED),
    "beyond doubles": ("1234567890123456789.12", "1234567890123456789.13", Verdict.DIVERGED),
    "17 digits that no double holds": ("1234567890123456.1", "1234567890123456.9", Verdict.DIVERGED),
    "a scale": ("1.10", "1.1", Verdict.CONSISTENT),
    "a sign": ("-1.5", "-1.50", Verdict.CONSISTENT),
    "the noise of a sum": ("0.30000000000000004", "0.3", Verdict.DIVERGED),
    "an exponent": ("1e5", "100000.0", Verdict.DIVERGED),
    "40 digits": ("1" * 40 + ".5", "1" * 40 + ".6", Verdict.DIVERGED),
    "a nanosecond": ("2026-01-01 10:00:00.123456789", "2026-01-01 10:00:00.123456788", Verdict.DIVERGED),
    "a picosecond": ("2026-01-01 10:00:00.123456789012", "2026-01-01 10:00:00.123456789013", Verdict.DIVERGED),
    "a tenth of a microsecond": ("10:00:00.1234567", "10:00:00.1234568", Verdict.DIVERGED),
    "single quotes": ("'a'", "a", Verdict.DIVERGED),
    "quotes inside": ('"a ""b"""', '"a ""b"""', Verdict.CONSISTENT),
}


@pytest.mark.quick
@pytest.mark.parametrize("case", CSV_PAIRS)
def test_csv_is_compared_as_it_is_written(tmp_path: Path, case: str) -> None:
    left, right, expected = CSV_PAIRS[case]
    sides = [text(tmp_path / f"{n}.csv", f"k,v\n1,{value}\n2,\n") for n, value in enumerate((left, right))]

    report = compare(sides[0], sides[1])

    assert (report.finding.verdict, report.finding.rows.changed) == (expected, int(expected is Verdict.DIVERGED))


def test_keys_of_csv_are_told_apart_beyond_doubles(tmp_path: Path) -> None:
    sides = [text(tmp_path / f"{n}.csv", f"k,v\n1234567890123456.9{n},1\n") for n in (1, 3)]

    assert compare(sides[0], sides[1]).finding.rows == Rows(compared=2, missing=1, extra=1)


def test_intervals_are_told_apart_by_their_parts(tmp_path: Path) -> None:
    values = ("5 months 3 days", "3 months 5 days")
    sides = [query(tmp_path / f"{n}.parquet", f"SELECT 1 k, INTERVAL '{value}' v") for n, value in enumerate(values)]

    assert compare(sides[0], sides[1]).finding.rows.changed == 1


@pytest.mark.quick
@pytest.mark.parametrize("name", ["__part", "__of", "__copy", "__ROW", "__diff", "__e0"])
def test_a_column_with_a_name_of_the_comparisons_own_is_refused(tmp_path: Path, name: str) -> None:
    sides = [text(tmp_path / f"{n}.csv", f"k,{name}\n1,{n}\n") for n in (1, 2)]

    with pytest.raises(DefinitionError, match=f"Column `{name}`: expected a name that a comparison does not use"):
        compare(sides[0], sides[1])
    diff_request = DiffRequest(expected=str(sides[0]), actual=str(sides[1]), key=("k",), excluded=(name,))
    assert compare_tables(diff_request, None).finding.verdict is Verdict.CONSISTENT


@pytest.mark.parametrize(
    ("kind", "left", "right", "tolerance", "changed_rows"),
    [
        ("UBIGINT", "5", "6", 1.0, 0),
        ("UBIGINT", "5", "6", 0.5, 1),
        ("UBIGINT", "0", "18446744073709551615", 2e19, 0),
        ("TINYINT", "100", "-100", 200.0, 0),
        ("TINYINT", "100", "-100", 199.0, 1),
        ("BIGINT", "-9223372036854775808", "-9223372036854775807", 2.0, 0),
        ("BIGINT", "-9223372036854775807", "9223372036854775807", 1e30, 0),
    ],
)
def test_a_tolerance_holds_for_every_whole_number(
    tmp_path: Path, kind: str, left: str, right: str, tolerance: float, changed_rows: int
) -> None:
    sides = [query(tmp_path / f"{value}.parquet", f"SELECT 1 k, '{value}'::{kind} v") for value in (left, right)]

    assert compare(sides[0], sides[1], v=Tolerance(absolute=tolerance)).finding.rows.changed == changed_rows


@pytest.mark.quick
def test_a_relative_tolerance_holds_for_unsigned_numbers(tmp_path: Path) -> None:
    sides = [query(tmp_path / f"{value}.parquet", f"SELECT 1 k, {value}::UTINYINT v") for value in (200, 201)]

    assert compare(sides[0], sides[1], v=Tolerance(relative=0.01)).finding.verdict is Verdict.CONSISTENT


@pytest.mark.quick
@pytest.mark.parametrize(
    ("integer", "part", "message"),
    [
        ("9007199254740993::BIGINT", "0.5::DOUBLE", "int64 and double"),
        ("16777217::INTEGER", "0.5::FLOAT", "int32 and float"),
        ("1.1::DECIMAL(9, 1)", "0.5::DOUBLE", r"decimal\S+ \S+ and double"),
    ],
)
def test_files_of_one_table_whose_types_do_not_fit_one_another_are_refused(
    tmp_path: Path, integer: str, part: str, message: str
) -> None:
    query(tmp_path / "t" / "a.parquet", f"SELECT 1 k, {integer} v")
    query(tmp_path / "t" / "b.parquet", f"SELECT 2 k, {part} v")

    with pytest.raises(DefinitionError, match=f"column `v`: expected one type in all files, got {message}"):
        compare(tmp_path / "t", tmp_path / "t")


def test_files_of_one_table_whose_types_fit_one_another_are_read(tmp_path: Path) -> None:
    query(tmp_path / "u" / "a.parquet", "SELECT 1 k, 7::INTEGER v")
    query(tmp_path / "u" / "b.parquet", "SELECT 2 k, 0.5::DOUBLE v")
    assert compare(tmp_path / "u", tmp_path / "u").finding.verdict is Verdict.CONSISTENT


@pytest.mark.quick
@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_files_of_one_table_whose_columns_differ_in_case_alone_are_refused(tmp_path: Path, ending: str) -> None:
    query(tmp_path / "t" / f"a.{ending}", "SELECT 1 k, 7 v")
    query(tmp_path / "t" / f"b.{ending}", "SELECT 2 k, 8 V")

    with pytest.raises(DefinitionError, match="differ in more than case, got `v` and `V`"):
        compare(tmp_path / "t", tmp_path / "t")


@pytest.mark.quick
@pytest.mark.parametrize("body", [b"", b"no Parquet", b"PAR1" * 4])
def test_a_file_that_is_no_parquet_is_named(tmp_path: Path, body: bytes) -> None:
    query(tmp_path / "t" / "a.parquet", "SELECT 1 k, 1 v")
    (tmp_path / "t" / "b.parquet").write_bytes(body)

    with pytest.raises(LakeError, match=r"expected Parquet, got in `b\.parquet`"):
        compare(tmp_path / "t", tmp_path / "t")


@pytest.mark.parametrize("name", ["rep[1]", "rep*", "rep?", "[a-z]"])
def test_a_file_is_read_by_its_name_though_that_is_a_pattern_too(tmp_path: Path, name: str) -> None:
    text(tmp_path / "rep1.csv", "k,v\n7,7\n")
    text(tmp_path / "r.csv", "k,v\n8,8\n")
    pattern_file = text(tmp_path / f"{name}.csv", "k,v\n1,1\n")
    other = text(tmp_path / "other.csv", "k,v\n1,1\n")

    assert compare(pattern_file, other).finding.rows == Rows(compared=1)


@pytest.mark.quick
def test_a_folder_is_read_whole_whatever_signs_and_case_its_names_have(tmp_path: Path) -> None:
    for n, name in enumerate(("a.parquet", "a[1].parquet", "B.PARQUET", "c*.Parquet")):
        query(tmp_path / "t[1]" / name, f"SELECT {n} k, {n} v")
    path = query(tmp_path / "same.parquet", "SELECT range k, range v FROM range(4)")

    assert compare(tmp_path / "t[1]", path).finding.rows == Rows(compared=4)


def test_a_rare_kind_is_listed_beside_one_of_many_columns(tmp_path: Path) -> None:
    columns = ", ".join(f"{{}} AS v{n}" for n in range(12))
    wide = f"SELECT range k, {columns} FROM range({{}})"  # noqa: S608 -- ours
    path = query(tmp_path / "l.parquet", wide.format(*[0] * 12, 1_000))
    right = query(tmp_path / "r.parquet", wide.format(*[1] * 12, 999))

    kinds = [difference.kind for difference in compare(path, right).finding.differences]

    assert (len(kinds), kinds.count("missing")) == (500, 12)


@pytest.mark.quick
def test_infinite_times_are_shown(tmp_path: Path) -> None:
    values = ("infinity", "-infinity")
    sides = [query(tmp_path / f"{value}.parquet", f"SELECT 1 k, TIMESTAMP '{value}' v") for value in values]

    (cell,) = compare(sides[0], sides[1]).finding.differences

    assert cell.batch != cell.streaming
