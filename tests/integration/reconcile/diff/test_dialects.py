"""`cutover diff` reads CSV in the stated dialect, lists what it infers, and rejects by name what it cannot read."""

import gzip
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cutover.errors import CutoverError, DefinitionError, LakeError
from cutover.reconcile.external import request
from cutover.reconcile.external.request import DiffRequest
from cutover.reconcile.external.tables import compare_tables
from cutover.reconcile.result.finding import ColumnReading, Origin, Verdict
from cutover.reconcile.result.report import Report
from cutover.sources.csv_dialect import Dialect, parse_dialect, read_csv_head

CSV = b"k,v\n1,a\n2,b\n"
BIG_CELL = 3_000_000


def compare(
    left: Path | str,
    right: Path | str,
    *,
    dialect: Dialect | None = None,
    key: str = "k",
    types: Mapping[str, str] | None = None,
) -> Report:
    dialects = (Dialect(), dialect or Dialect())
    return compare_tables(
        DiffRequest(expected=str(left), actual=str(right), key=(key,), dialects=dialects, types=types or {})
    )


def file(folder: Path, name: str, body: bytes) -> Path:
    (folder / name).write_bytes(body)
    return folder / name


STATED = {
    "a delimiter": ("delimiter=;", b"k;v\n1;a\n2;b\n"),
    "a delimiter that the head does not show": ("delimiter=:", b"k:v\n1:a\n2:b\n"),
    "a tab": ("delimiter=tab", b"k\tv\n1\ta\n2\tb\n"),
    "a quote": ("quote='", b"k,v\n'1','a'\n2,b\n"),
    "an encoding": ("encoding=utf-16", CSV.decode().encode("utf-16")),
}


@pytest.mark.quick
@pytest.mark.parametrize("case", STATED)
def test_a_stated_dialect_is_read(tmp_path: Path, case: str) -> None:
    text, body = STATED[case]
    sides = file(tmp_path, "l.csv", CSV), file(tmp_path, "r.csv", body)

    assert compare(*sides, dialect=parse_dialect([text], "--csv")).finding.verdict is Verdict.CONSISTENT


WORDS = "k,v\n1,größe\n2,b\n"
OTHER_ENCODINGS = {  # stated, bytes, texts in the message besides the file's name
    "UTF-16 without a mark as UTF-16": ("utf-16", WORDS.encode("utf-16-le"), ("byte order mark", "iconv -f utf-16le")),
    "UTF-16 in the other order without a mark": ("utf-16", WORDS.encode("utf-16-be"), ("iconv -f utf-16be",)),
    "UTF-16 in the other order": (
        "utf-16",
        b"\xfe\xff" + WORDS.encode("utf-16-be"),
        ("big-endian", "iconv -f utf-16be"),
    ),
    "UTF-32": ("utf-16", WORDS.encode("utf-32"), ("UTF-32", "iconv -f utf-32 ")),
    "UTF-8 as UTF-16": ("utf-16", WORDS.encode(), ("byte order mark", "encoding=utf-8")),
    "UTF-8 with a mark as UTF-16": ("utf-16", WORDS.encode("utf-8-sig"), ("UTF-8", "encoding=utf-8")),
    "UTF-16 that ends in half a character": ("utf-16", WORDS.encode("utf-16") + b"x", ("truncated",)),
    "half a pair of UTF-16": ("utf-16", CSV.decode().encode("utf-16") + b"\x00\xd8\n\x00", ("surrogate",)),
    "a pair of UTF-16": ("utf-16", "k,v\n1,😀\n".encode("utf-16"), ("U+FFFF", "iconv -f utf-16 ")),
    "UTF-16 as UTF-8": ("utf-8", WORDS.encode("utf-16"), ("UTF-16", "encoding=utf-16")),
    "UTF-16 without a mark as UTF-8": ("utf-8", WORDS.encode("utf-16-le"), ("zero", "iconv -f utf-16le")),
    "Latin-1 as UTF-8": ("utf-8", WORDS.encode("latin-1"), ("line 2", "encoding=latin-1")),
    "UTF-16 as Latin-1": ("latin-1", WORDS.encode("utf-16"), ("UTF-16", "encoding=utf-16")),
    "UTF-16 without a mark as Latin-1": ("latin-1", WORDS.encode("utf-16-be"), ("zero", "iconv -f utf-16be")),
    "UTF-8 with a mark as Latin-1": ("latin-1", CSV.decode().encode("utf-8-sig"), ("UTF-8", "encoding=utf-8")),
    "UTF-8 as Latin-1": ("latin-1", WORDS.encode(), ("0x9F at 11", "encoding=utf-8")),
    "Windows-1252 as Latin-1": ("latin-1", "k,v\n1,5 €\n".encode("cp1252"), ("0x80 at 8", "iconv -f windows-1252")),
}


@pytest.mark.quick
@pytest.mark.parametrize("is_left", [True, False], ids=["expected side", "actual side"])
@pytest.mark.parametrize("case", OTHER_ENCODINGS)
def test_a_file_in_another_encoding_than_stated_is_rejected_by_name(
    tmp_path: Path, case: str, *, is_left: bool
) -> None:
    encoding, body, expected_texts = OTHER_ENCODINGS[case]
    sides = [
        (str(file(tmp_path, "other.csv", body)), Dialect(encoding=encoding)),
        (str(file(tmp_path, "plain.csv", CSV)), Dialect()),
    ]
    (left, ours), (right, right_dialect) = sides if is_left else sides[::-1]

    with pytest.raises(LakeError, match=r"`other\.csv`") as caught:
        compare_tables(DiffRequest(expected=left, actual=right, key=("k",), dialects=(ours, right_dialect)))

    assert [text for text in expected_texts if text not in str(caught.value)] == []


@pytest.mark.parametrize("packed", ["", ".gz"])
@pytest.mark.parametrize(("encoding", "codec"), [("utf-8", "utf-8-sig"), ("utf-16", "utf-16"), ("latin-1", "latin-1")])
def test_a_file_in_the_stated_encoding_is_read(tmp_path: Path, encoding: str, codec: str, packed: str) -> None:
    body = WORDS.encode(codec)
    other = file(tmp_path, f"r.csv{packed}", gzip.compress(body) if packed else body)

    report = compare(file(tmp_path, "l.csv", WORDS.encode()), other, dialect=Dialect(encoding=encoding))

    assert (report.finding.verdict, report.finding.rows.compared) == (Verdict.CONSISTENT, 2)


@pytest.mark.quick
def test_a_file_without_a_head_has_numbered_columns(tmp_path: Path) -> None:
    bare = file(tmp_path, "r.csv", CSV.partition(b"\n")[2])
    dialect = parse_dialect(["header=no"], "--csv-right")

    tables = compare_tables(
        DiffRequest(
            expected=str(file(tmp_path, "l.csv", CSV)),
            actual=str(bare),
            key=("k",),
            names={"k": "column0", "v": "column1"},
            dialects=(Dialect(), dialect),
        )
    )

    assert tables.finding.verdict is Verdict.CONSISTENT


@pytest.mark.quick
def test_the_text_of_a_null_is_stated_and_an_empty_cell_is_a_text_then(tmp_path: Path) -> None:
    pq.write_table(pa.table({"k": [1, 2, 3], "v": ["NA", None, ""]}), tmp_path / "l.parquet")
    right = file(tmp_path, "r.csv", b'k,v\n1,"NA"\n2,NA\n3,\n')

    report = compare(tmp_path / "l.parquet", right, dialect=parse_dialect(["null=NA"], "--csv"))

    assert report.finding.verdict is Verdict.CONSISTENT


def test_quoted_empty_texts_are_no_nulls(tmp_path: Path) -> None:
    pq.write_table(pa.table({"k": [1, 2], "v": ["", None]}), tmp_path / "l.parquet")

    report = compare(tmp_path / "l.parquet", file(tmp_path, "r.csv", b'k,v\n1,""\n2,\n'))

    assert report.finding.verdict is Verdict.CONSISTENT


@pytest.mark.parametrize("null", ["", "NA"])
def test_an_empty_cell_beside_numbers_is_null_with_and_without_quotes(tmp_path: Path, null: str) -> None:
    path = file(tmp_path, "l.csv", b'"k","v","w"\n"1","2",""\n"","",""\n"3",,"7"\n')
    right = file(tmp_path, "r.csv", f"k,v,w\n1,2.0,\n,,\n3,{null},7\n".encode())

    report = compare(path, right, dialect=parse_dialect([f"null={null}"] if null else [], "--csv"))

    assert (report.finding.verdict, report.finding.rows.compared) == (Verdict.CONSISTENT, 3)


@pytest.mark.quick
@pytest.mark.parametrize(
    "text", ["delimiter=", "delimiter=ab", "quote=xx", "header=maybe", "encoding=ebcdic", "x=y", "z"]
)
def test_what_no_dialect_has_is_rejected_with_the_option(text: str) -> None:
    with pytest.raises(DefinitionError, match=r"`--csv-left`: expected .*got `"):
        parse_dialect([text], "--csv-left")


@pytest.mark.quick
def test_a_head_that_two_delimiters_split_alike_is_rejected(tmp_path: Path) -> None:
    both = file(tmp_path, "l.csv", b"k,v;w\n1,2;3\n")

    with pytest.raises(DefinitionError, match=r"got `,` and `;`.*\nHint: .*--csv delimiter="):
        compare(both, both)


def test_the_delimiter_does_not_depend_on_rows(tmp_path: Path) -> None:
    rows = b"".join(b"%d,a;b;c\n" % n for n in range(50))
    sides = [file(tmp_path, name, b"k,v\n" + rows) for name in ("l.csv", "r.csv")]

    report = compare(*sides)

    assert (report.finding.verdict, report.finding.rows.compared) == (Verdict.CONSISTENT, 50)


def test_what_was_inferred_is_listed(tmp_path: Path) -> None:
    pq.write_table(pa.table({"k": [1, 2], "v": ["a", "b"]}), tmp_path / "l.parquet")

    report = compare(tmp_path / "l.parquet", file(tmp_path, "r.csv", b"k;v;n;t\n1;a;1.50;x\n2;b;7;y\n"))

    (reading,) = report.finding.readings
    assert (reading.side, reading.dialect["delimiter"]) == ("actual", ";")
    assert reading.columns == (
        ColumnReading(column="k", type="bigint", origin=Origin.OTHER_SIDE),
        ColumnReading(column="v", type="text", origin=Origin.OTHER_SIDE),
    )


def test_a_column_without_types_on_both_sides_is_inferred_from_both(tmp_path: Path) -> None:
    sides = file(tmp_path, "l.csv", b"k,v\n1,1.50\n"), file(tmp_path, "r.csv", b"k,v\n1,1.5\n")

    report = compare(*sides)

    inferred_columns = {
        (column.column, column.type, column.origin) for table in report.finding.readings for column in table.columns
    }
    assert report.finding.verdict is Verdict.CONSISTENT
    assert inferred_columns == {("k", "bigint", Origin.INFERRED), ("v", "decimal(18,1)", Origin.INFERRED)}


@pytest.mark.quick
@pytest.mark.parametrize(
    ("kind", "left", "right", "expected"),
    [
        ("double", "1e-7", "0.0000001", Verdict.CONSISTENT),
        ("text", "1.0", "1", Verdict.DIVERGED),
        ("decimal", "007", "7", Verdict.CONSISTENT),
        ("timestamp", "2024-01-31T10:00:00Z", "2024-01-31 12:00:00+02", Verdict.CONSISTENT),
        ("boolean", "True", "true", Verdict.CONSISTENT),
    ],
)
def test_a_stated_type_says_what_texts_are(tmp_path: Path, kind: str, left: str, right: str, expected: Verdict) -> None:
    sides = [file(tmp_path, f"{n}.csv", f"k,v\n1,{value}\n".encode()) for n, value in enumerate((left, right))]

    assert compare(*sides, types=request.parse_types([f"v={kind}"])).finding.verdict is expected


@pytest.mark.quick
def test_a_stated_type_that_does_not_read_every_cell_is_rejected_by_name(tmp_path: Path) -> None:
    sides = file(tmp_path, "l.csv", b"k,v\n1,9007199254740993\n2,secret\n"), file(tmp_path, "r.csv", b"k,v\n1,1\n")

    with pytest.raises(
        DefinitionError, match=r"Column `v` of the expected side: expected DOUBLE.* 2 cells"
    ) as rejected:
        compare(*sides, types={"v": "DOUBLE"})

    assert "secret" not in str(rejected.value)


def test_times_of_csv_have_a_tolerance_once_their_type_is_stated(tmp_path: Path) -> None:
    times = request.parse_tolerances(["v=5 seconds"])
    sides = [file(tmp_path, f"{n}.csv", b"k,v\n1,2024-01-31 10:00:0%d\n" % n) for n in (1, 4)]
    diff_request = DiffRequest(expected=str(sides[0]), actual=str(sides[1]), key=("k",), tolerances=times)

    with pytest.raises(DefinitionError, match="Hint: `--type v="):
        compare_tables(diff_request)
    assert compare_tables(replace(diff_request, types={"v": "TIMESTAMP"})).finding.verdict is Verdict.CONSISTENT


@pytest.mark.quick
@pytest.mark.parametrize(
    ("left", "right", "changed_rows"),
    [
        pytest.param("1.00 N/A 5", "1.001 N/A 5.0", 0, id="within"),
        pytest.param("1.00 N/A 5", "1.1 N/A 5", 1, id="beyond"),
        pytest.param("1.00 N/A 5", "1 n/a 5", 1, id="another text"),
        pytest.param("1 N/A 5", "x N/A y", 2, id="no number on one side"),
        pytest.param("1.00 N/A 5", "1 7 5", 1, id="a number for a text"),
    ],
)
def test_a_tolerance_holds_for_the_numbers_of_a_column_that_has_other_texts(
    tmp_path: Path, left: str, right: str, changed_rows: int
) -> None:
    sides = [
        file(tmp_path, f"{n}.csv", "\n".join(["k,v", *(f"{k},{v}" for k, v in enumerate(side.split()))]).encode())
        for n, side in enumerate((left, right))
    ]
    near = request.parse_tolerances(["v=0.01"])

    tables = compare_tables(DiffRequest(expected=str(sides[0]), actual=str(sides[1]), key=("k",), tolerances=near))

    assert (tables.finding.verdict is Verdict.DIVERGED, tables.finding.rows.changed) == (changed_rows > 0, changed_rows)


PACKED: Mapping[str, Callable[[bytes], bytes]] = {
    "tsv.gz": lambda body: gzip.compress(body.replace(b",", b"\t")),
    "tsv.zst": lambda body: pa.compress(body.replace(b",", b"\t"), codec="zstd", asbytes=True),
    "csv.zst": lambda body: pa.compress(body, codec="zstd", asbytes=True),
    "CSV": lambda body: body,
}


@pytest.mark.parametrize("ending", PACKED)
def test_packed_files_are_read(tmp_path: Path, ending: str) -> None:
    packed = file(tmp_path, f"r.{ending}", PACKED[ending](CSV))

    assert compare(file(tmp_path, "l.csv", CSV), packed).finding.verdict is Verdict.CONSISTENT


@pytest.mark.quick
@pytest.mark.parametrize("name", ["r.jsonl", "r.json.gz", "r.xlsx", "r.txt", "r.avro"])
@pytest.mark.parametrize("in_folder", [False, True])
def test_other_files_are_rejected_with_what_is_read(tmp_path: Path, name: str, *, in_folder: bool) -> None:
    (tmp_path / "right").mkdir()
    other = file(tmp_path / "right", name, b"PK\x03\x04 or anything")

    with pytest.raises(CutoverError, match=r"expected a Delta or Iceberg folder, Parquet, or CSV \(.*\.csv\.zst"):
        compare(file(tmp_path, "l.csv", CSV), other.parent if in_folder else other)


@pytest.mark.quick
@pytest.mark.parametrize("last_character", ["x", "y"])
def test_a_cell_of_megabytes_is_read(tmp_path: Path, last_character: str) -> None:
    long = b"x" * BIG_CELL
    sides = (
        file(tmp_path, "l.csv", b"k,v\n1," + long + b"x\n"),
        file(tmp_path, "r.csv", b"k,v\n1," + long + last_character.encode()),
    )

    assert compare(*sides).finding.rows.changed == int(last_character == "y")


@pytest.mark.quick
@pytest.mark.parametrize("length", [BIG_CELL, 20 * BIG_CELL])
def test_a_cell_too_long_for_a_packed_file_is_rejected_by_name(tmp_path: Path, length: int) -> None:
    body = b"k,v\n1,a\n2," + b"x" * length + b"\n3,b\n"
    packed = file(tmp_path, "r.csv.gz", gzip.compress(body, 1))

    with pytest.raises(LakeError, match=r"line 3\b.*`r.csv.gz`(?s:.*)2,000,000"):
        compare(packed, packed)


@pytest.mark.quick
@pytest.mark.parametrize(
    "address", ["postgresql://me:geheim@127.0.0.1:1/db#t", "s3://me:geheim@bucket/table", "mysql://x"]
)
def test_an_address_is_rejected_without_its_password(tmp_path: Path, address: str) -> None:
    with pytest.raises(
        CutoverError, match=r"expected a (Delta or Iceberg folder|server that|table that Ibis)|driver"
    ) as rejected:
        compare(file(tmp_path, "l.csv", CSV), address)

    assert "geheim" not in str(rejected.value)


@pytest.mark.quick
@pytest.mark.parametrize(
    ("actual_name", "option"),
    [
        ("ID", "--map id=ID"),
        ("id ", "--map 'id=id '"),
        ("id\u200b", "--map $'id=id\\\\U0000200b'"),
        ("\ufeffid", "feffid'"),
    ],
)
def test_names_that_look_alike_are_named_with_the_option(tmp_path: Path, actual_name: str, option: str) -> None:
    sides = [tmp_path / f"{n}.parquet" for n in (0, 1)]
    for path, name in zip(sides, ("id", actual_name), strict=True):
        pq.write_table(pa.table({name: [1], "v": [2]}), path)

    with pytest.raises(DefinitionError, match="they share v") as rejected:
        compare(*sides, key="id")
    diff_request = DiffRequest(
        expected=str(sides[0]), actual=str(sides[1]), key=("id",), names=request.parse_renames([f"id={actual_name}"])
    )

    assert option.replace("\\\\", "\\") in str(rejected.value)
    assert compare_tables(diff_request).finding.verdict is Verdict.CONSISTENT


def test_folders_name_texts_and_not_numbers(tmp_path: Path) -> None:
    for side, zips in (("l", ("01234",)), ("r", ("1234",))):
        for value in zips:
            folder = tmp_path / side / f"zip={value}"
            folder.mkdir(parents=True)
            pq.write_table(pa.table({"k": [1]}), folder / "a.parquet")

    report = compare(tmp_path / "l", tmp_path / "r")

    assert (report.finding.verdict, report.finding.rows.changed) == (Verdict.DIVERGED, 1)


def test_twelve_hundred_columns_are_compared(tmp_path: Path) -> None:
    for name, value in (("l", 777), ("r", 778)):
        columns = {f"c{n}": [n, n] for n in range(1200)} | {"c777": [777, value]}
        pq.write_table(pa.table({"k": [1, 2], **columns}), tmp_path / f"{name}.parquet")

    report = compare(tmp_path / "l.parquet", tmp_path / "r.parquet")

    assert (report.finding.verdict, [cell.measure for cell in report.finding.differences]) == (
        Verdict.DIVERGED,
        ["c777"],
    )
    assert [deviation.column for deviation in report.finding.apart] == ["c777"]


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (gzip.compress(b"k,v\n1,2\n"), "gzip"),
        (bytes(pa.compress(b"k,v\n1,2\n", codec="zstd", asbytes=True)), "zstd"),
        (b"PK\x03\x04\x14\x00", "Excel"),
        (b"\xd0\xcf\x11\xe0\xa1", "Excel"),
        (b"PAR1\x15\x04\x00", "Parquet"),
    ],
    ids=["gzip", "zstd", "zip", "old Excel", "Parquet"],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "latin-1"])
def test_a_file_that_is_no_csv_is_named_as_what_it_is(tmp_path: Path, content: bytes, kind: str, encoding: str) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(content)

    with pytest.raises(LakeError, match=f"expected CSV in `t.csv`, got .*{kind}"):
        read_csv_head(str(path), str(path), Dialect(encoding=encoding))


@pytest.mark.parametrize("head", ["PAR1,v", "PK,v"])
def test_a_name_that_begins_like_another_kind_of_file_is_a_name(tmp_path: Path, head: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"{head}\n1,2\n")

    assert read_csv_head(str(path), str(path), Dialect()).names == tuple(head.split(","))


@pytest.mark.parametrize("line", ["sep=;\n", "\r\nSEP=;\r\n", '"sep=;"\n'])
def test_the_line_that_states_the_delimiter_for_excel_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"{line}k;v\n1;2\n", newline="")

    with pytest.raises(DefinitionError, match=r"(?s)line `sep=;`.*--csv 'delimiter=;'"):
        read_csv_head(str(path), str(path), Dialect())


def test_names_that_are_shown_alike_are_hinted_with_their_characters(tmp_path: Path) -> None:
    for name, column in (("l", "caf\u00e9"), ("r", "cafe\u0301")):
        (tmp_path / f"{name}.csv").write_text(f"k,{column}\n1,2\n", encoding="utf-8")
    left, right = (str(tmp_path / f"{name}.csv") for name in "lr")

    notes = compare_tables(DiffRequest(expected=left, actual=right, key=("k",))).finding.notes

    assert any(r"--map $'caf\U000000e9=cafe\U00000301'" in note for note in notes)
