"""`cutover diff` reads files as they are written: no row is treated as a comment, no folder as something else."""

import gzip
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from cutover.errors import DefinitionError, LakeError
from cutover.reconcile.external.request import DiffRequest
from cutover.reconcile.external.tables import compare_tables
from cutover.reconcile.result.finding import Rows, Verdict
from cutover.reconcile.result.report import Report
from cutover.settings import Settings

ROWS = pa.table({"k": [1, 2, 3], "v": [10, 20, 30]})
EARLY, LATER = (
    pa.table({"k": [k], "v": [10 * k], "at": pa.array([k], pa.timestamp("us")), "of": [{"x": 1, "y": 2}]})
    for k in (1, 2)
)
CSV = "k,v\n1,10\n2,20\n3,30\n"


def write(path: Path, rows: pa.Table = ROWS) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, path)
    return str(path)


def compare_files(left: Path | str, right: Path | str, *, key: str = "k", home: Path | None = None) -> Report:
    diff_request = DiffRequest(expected=str(left), actual=str(right), key=tuple(key.split(",")))
    return compare_tables(diff_request, None if home is None else Settings(home=home))


def make_day_table(day: int) -> pa.Table:
    return ROWS.append_column("day", pa.array([day] * len(ROWS)))


@pytest.mark.quick
@pytest.mark.parametrize("line", ["#4,40\n", "#4,40 # once more\n", "# 4,40\n"])
@pytest.mark.parametrize("is_first", [True, False])
def test_a_row_that_begins_like_a_comment_is_a_row(tmp_path: Path, line: str, *, is_first: bool) -> None:
    many = "".join(f"{n},{n}\n" for n in range(50))
    (tmp_path / "l.csv").write_text(f"k,v\n{many}", encoding="utf-8")
    (tmp_path / "r.csv").write_text(f"k,v\n{line}{many}" if is_first else f"k,v\n{many}{line}", encoding="utf-8")

    assert compare_files(tmp_path / "l.csv", tmp_path / "r.csv").finding.rows == Rows(compared=51, extra=1)


def test_a_value_is_not_cut_at_a_sign_of_comments(tmp_path: Path) -> None:
    (tmp_path / "l.csv").write_text(CSV, encoding="utf-8")
    (tmp_path / "r.csv").write_text(CSV.replace("0\n", "0#x\n"), encoding="utf-8")

    assert compare_files(tmp_path / "l.csv", tmp_path / "r.csv").finding.rows.changed == 3


def test_lines_before_a_head_are_not_skipped(tmp_path: Path) -> None:
    (tmp_path / "l.csv").write_text(CSV, encoding="utf-8")
    wide = "".join(f"{n},{n}0,1\n" for n in range(1, 4))
    (tmp_path / "r.csv").write_text(f"k,v\n9,90\nk,v,w\n{wide}", encoding="utf-8")

    with pytest.raises(LakeError, match=r"line 3 of `r.csv`: expected 2 cells.*got 3"):
        compare_files(tmp_path / "l.csv", tmp_path / "r.csv")


def test_which_number_is_the_month_is_not_guessed(tmp_path: Path) -> None:
    (tmp_path / "l.csv").write_text("k,v\n1,01/02/2020\n", encoding="utf-8")
    (tmp_path / "r.csv").write_text("k,v\n1,01/02/2020\n2,12/25/2020\n", encoding="utf-8")

    assert compare_files(tmp_path / "l.csv", tmp_path / "r.csv").finding.rows == Rows(compared=2, extra=1)


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_names_that_differ_in_case_alone_are_refused(tmp_path: Path, kind: str) -> None:
    left, right = tmp_path / f"l.{kind}", tmp_path / f"r.{kind}"
    if kind == "csv":
        left.write_text("k,V,v_1\n1,1,2\n", encoding="utf-8")
        right.write_text("k,V,v\n1,1,2\n", encoding="utf-8")
    else:
        write(left, pa.table({"k": [1], "V": [1], "v_1": [2]}))
        write(right, pa.table({"k": [1], "V": [1], "v": [2]}))

    with pytest.raises(DefinitionError, match="differ in more than case, got `V` and `v`"):
        compare_files(left, right)


def test_a_column_that_ends_in_a_number_is_a_column(tmp_path: Path) -> None:
    both = [write(tmp_path / f"{n}.parquet", pa.table({"k": [1], "v": [1], "v_1": [2]})) for n in range(2)]

    assert compare_files(both[0], both[1]).finding.verdict is Verdict.CONSISTENT


def test_folders_above_a_table_are_no_columns(tmp_path: Path) -> None:
    files = [write(tmp_path / f"run={run}" / "day=1" / "a.parquet") for run in (1, 2)]

    assert compare_files(files[0], files[1]).finding.verdict is Verdict.CONSISTENT
    assert compare_files(tmp_path / "run=1", tmp_path / "run=2", key="day,k").finding.verdict is Verdict.CONSISTENT


@pytest.mark.quick
def test_a_folder_does_not_speak_for_a_file(tmp_path: Path) -> None:
    write(tmp_path / "right" / "day=1" / "a.parquet", make_day_table(2))

    report = compare_files(write(tmp_path / "left.parquet", make_day_table(1)), tmp_path / "right")

    assert (report.finding.verdict, report.finding.rows.changed) == (Verdict.DIVERGED, 3)


def test_equal_bytes_in_two_folders_are_not_the_same_rows(tmp_path: Path) -> None:
    for day in (1, 2):
        write(tmp_path / "right" / f"day={day}" / "a.parquet")

    twice = write(tmp_path / "left.parquet", pa.concat_tables([make_day_table(1), make_day_table(1)]))

    assert compare_files(twice, tmp_path / "right", key="day,k", home=tmp_path).finding.rows.extra == 3


@pytest.mark.quick
def test_a_folder_of_another_name_is_compared_again(tmp_path: Path) -> None:
    left = write(tmp_path / "left.parquet", make_day_table(1))
    write(tmp_path / "right" / "day=1" / "a.parquet")
    assert compare_files(left, tmp_path / "right", key="day,k", home=tmp_path).finding.verdict is Verdict.CONSISTENT

    (tmp_path / "right" / "day=1").rename(tmp_path / "right" / "day=2")

    report = compare_files(left, tmp_path / "right", key="day,k", home=tmp_path)
    assert (report.finding.verdict, report.finding.rows.missing, report.finding.rows.extra) == (Verdict.DIVERGED, 3, 3)


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize(
    "second",
    [
        pytest.param(LATER.select(["v", "k", "at", "of"]), id="another order"),
        pytest.param(LATER.set_column(1, "v", LATER["v"].cast(pa.int32())), id="a narrower type"),
        pytest.param(LATER.append_column("w", pa.array([7])), id="a further column"),
        pytest.param(LATER.drop_columns(["v"]), id="a column less"),
        pytest.param(LATER.set_column(2, "at", LATER["at"].cast(pa.timestamp("ns"))), id="another unit of time"),
        pytest.param(LATER.set_column(3, "of", pa.array([{"y": 2, "x": 1}])), id="parts in another order"),
    ],
)
def test_files_of_one_table_need_not_have_one_schema(tmp_path: Path, second: pa.Table, *, swapped: bool) -> None:
    """A query that is bound by one file alone must not be, here: it would read the others by its own columns."""
    first_table, second_table = (second, EARLY) if swapped else (EARLY, second)
    write(tmp_path / "left" / "a.parquet", first_table)
    write(tmp_path / "left" / "b.parquet", second_table)
    write(
        tmp_path / "right.parquet",
        pa.concat_tables([first_table, _typed_as(first_table, second_table)], promote_options="default"),
    )

    assert compare_files(tmp_path / "left", tmp_path / "right.parquet").finding.verdict is Verdict.CONSISTENT


def _typed_as(table: pa.Table, part: pa.Table) -> pa.Table:
    """Return a part with the types of another one, where that has a column of the name."""
    fields = [table.schema.field(c.name) if c.name in table.schema.names else c for c in part.schema]
    return pa.Table.from_pylist(part.to_pylist(), schema=pa.schema(fields))


def test_times_of_two_kinds_in_one_table_are_read(tmp_path: Path) -> None:
    write(tmp_path / "left" / "a.parquet", EARLY)
    pq.write_table(LATER, tmp_path / "left" / "b.parquet", use_deprecated_int96_timestamps=True)
    write(tmp_path / "right.parquet", pa.concat_tables([EARLY, LATER]))

    assert compare_files(tmp_path / "left", tmp_path / "right.parquet").finding.verdict is Verdict.CONSISTENT


@pytest.mark.quick
@pytest.mark.parametrize("zone", ["UTC", None])
def test_a_delta_table_may_be_partitioned_by_times(tmp_path: Path, zone: str | None) -> None:
    moments = [datetime(2024, 1, day, 5, 6, 7, 891_000, tzinfo=UTC if zone else None) for day in (1, 2, 2)]
    rows = ROWS.append_column("at", pa.array(moments, pa.timestamp("us", zone)))
    write_deltalake(str(tmp_path / "delta"), rows, partition_by=["at"])

    assert compare_files(write(tmp_path / "l.parquet", rows), tmp_path / "delta").finding.verdict is Verdict.CONSISTENT


@pytest.mark.quick
@pytest.mark.parametrize(
    ("rows", "message"),
    [
        pytest.param("1,a\n2,b,c\n", "line 3 of `l.csv`: expected 2 cells.*got 3", id="more"),
        pytest.param("1,a\n2,b,\n", "line 3 of `l.csv`: expected 2 cells.*got 3", id="an empty one more"),
        pytest.param("1,a,\n2\n", "line 3: Expected Number of Columns: 2 Found: 1", id="one more and one fewer"),
        pytest.param("1,a\n2\n", "line 3 of `l.csv`: expected 2 cells.*got 1", id="fewer"),
        pytest.param('1,"a\n2,b\n', "line 2 of `l.csv`: expected a closing quote", id="open quote"),
        pytest.param('1,"x\ny"\n2, "a"\n', "line 4 of `l.csv`: .*blanks.* in cell 2", id="blanks before a quote"),
        pytest.param('1,x\n "2",a\n', "line 3 of `l.csv`: .*blanks.* in cell 1", id="blanks before the first quote"),
        pytest.param('1,"a" \n', "line 2 of `l.csv`: .*further text in cell 2", id="blanks after a quote"),
        pytest.param("1,a\rb\n", "line 2 of `l.csv`: expected CR .*, got CR alone", id="line break"),
    ],
)
def test_csv_that_breaks_its_form_is_rejected_with_line_file_and_option(
    tmp_path: Path, rows: str, message: str
) -> None:
    (tmp_path / "l.csv").write_text(f"k,v\n{rows}", encoding="utf-8")

    with pytest.raises(LakeError, match=rf"{message}.*\nHint: "):
        compare_files(tmp_path / "l.csv", tmp_path / "l.csv")


@pytest.mark.quick
@pytest.mark.parametrize("ending", ["csv", "csv.gz"])
def test_one_such_file_among_others_is_told(tmp_path: Path, ending: str) -> None:
    opened = gzip.open if ending == "csv.gz" else open
    for number, rows in enumerate(("1,a\n", "2,b,c\n")):
        with opened(tmp_path / f"{number}.{ending}", "wt", encoding="utf-8") as stream:
            stream.write(f"k,v\n{rows}")

    with pytest.raises(LakeError, match=rf"line 2 of `1.{ending}`: expected 2 cells.*got 3"):
        compare_files(tmp_path, tmp_path)


def test_a_column_with_a_comma_in_its_name_is_a_column(tmp_path: Path) -> None:
    (tmp_path / "l.csv").write_text('"street, city","k"\na,1\nb,2\n', encoding="utf-8")
    (tmp_path / "one.csv").write_text('"k, v"\na\nb\n', encoding="utf-8")

    assert compare_files(tmp_path / "l.csv", tmp_path / "l.csv").finding.verdict is Verdict.CONSISTENT
    with pytest.raises(DefinitionError, match="expected a column of both tables, they share k, v"):
        compare_files(tmp_path / "one.csv", tmp_path / "one.csv")


@pytest.mark.quick
@pytest.mark.parametrize(
    ("row", "message"),
    [
        pytest.param(
            b'1,secret"\n2,"secret"secret', "line 3 of `l.csv`: .*further text in cell 2", id="text after quote"
        ),
        pytest.param(b"1,secret\xff", "got: line 2: Invalid unicode", id="no UTF-8"),
    ],
)
def test_csv_that_cannot_be_read_is_told_on_one_line_without_its_text(tmp_path: Path, row: bytes, message: str) -> None:
    (tmp_path / "l.csv").write_bytes(b"k,v\n" + row + b"\n")

    with pytest.raises(LakeError, match=message) as refused:
        compare_files(tmp_path / "l.csv", tmp_path / "l.csv")

    assert "secret" not in str(refused.value)
    assert len(refused.value.text.splitlines()[0]) < 400


FileContent = str | tuple[list[str], list[object]]

UNNAMED: dict[str, FileContent] = {
    "csv": "k,,v\n1,x,a\n",
    "csv, first": ",k,v\nx,1,a\n",
    "csv, last": "k,v,\n1,a,x\n",
    "parquet": (["k", "", "v"], [1, "x", "a"]),
    "parquet, first": (["", "k", "v"], ["x", 1, "a"]),
}
NAMED: dict[str, FileContent] = {
    "csv": "k,column1,v\n1,x,a\n",
    "csv, by the engine": "k,C1,v\n1,x,a\n",
    "parquet": (["k", "column1", "v"], [1, "x", "a"]),
    "parquet, by the engine": (["k", "C1", "v"], [1, "x", "a"]),
}


def write_either(path: Path, content: FileContent) -> str:
    if isinstance(content, str):
        path = path.with_suffix(".csv")
        path.write_text(content, encoding="utf-8")
        return str(path)
    names, cells = content
    return write(path.with_suffix(".parquet"), pa.table([[cell] for cell in cells], names=names))


@pytest.mark.parametrize("left", UNNAMED)
@pytest.mark.parametrize("right", UNNAMED)
def test_a_column_without_a_name_is_one_column_in_every_place_and_format(tmp_path: Path, left: str, right: str) -> None:
    report = compare_files(write_either(tmp_path / "l", UNNAMED[left]), write_either(tmp_path / "r", UNNAMED[right]))

    assert (report.finding.verdict, report.finding.rows) == (Verdict.CONSISTENT, Rows(compared=1))


@pytest.mark.parametrize("left", UNNAMED)
@pytest.mark.parametrize("right", NAMED)
def test_a_column_without_a_name_is_none_that_has_one(tmp_path: Path, left: str, right: str) -> None:
    report = compare_files(write_either(tmp_path / "l", UNNAMED[left]), write_either(tmp_path / "r", NAMED[right]))

    assert report.finding.verdict is Verdict.DIVERGED
    assert 'Column `""` is on the expected side only.' in report.finding.notes


def test_a_column_without_a_name_can_be_a_key_and_differ(tmp_path: Path) -> None:
    left, right = (write_either(tmp_path / name, f",v\n1,{name}\n") for name in "lr")
    assert compare_files(left, right, key='""').finding.rows == Rows(compared=1, changed=1)


@pytest.mark.parametrize("head", ["k,,", 'k,"""""",v', "k,,column1,"])
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_names_that_are_none_or_two_are_refused(tmp_path: Path, head: str, kind: str) -> None:
    names = head.replace('""""""', '""').split(",")
    cells: list[object] = ["1"] * len(names)
    content: FileContent = f"{head}\n{','.join(['1'] * len(names))}\n" if kind == "csv" else (names, cells)
    table = write_either(tmp_path / "t", content)

    with pytest.raises(DefinitionError, match="without a name"):
        compare_files(table, table)


def test_columns_without_a_name_do_not_hide_one_that_has_their_place_as_its_name(tmp_path: Path) -> None:
    table = write_either(tmp_path / "t", (["k", "", "C1"], [1, 2, 3]))
    csv = write_either(tmp_path / "t", "k,,C1,column1\n1,2,3,4\n")

    assert compare_files(csv, csv).finding.verdict is Verdict.CONSISTENT
    with pytest.raises(DefinitionError, match="no column `C1`"):
        compare_files(table, table)


def test_a_field_without_a_name_and_a_column_of_delta_without_one_are_refused(tmp_path: Path) -> None:
    nested = write(tmp_path / "t.parquet", pa.table({"k": [1], "s": [{"": 1, "a": 2}]}))
    write_deltalake(tmp_path / "delta", pa.table([[1], [2]], names=["k", ""]))

    for table in (nested, tmp_path / "delta"):
        with pytest.raises(DefinitionError, match="with names, got one without"):
            compare_files(table, table)


def test_files_of_one_table_have_the_column_without_a_name_in_one_place(tmp_path: Path) -> None:
    for name, names in (("a", ["k", ""]), ("b", ["", "k"])):
        write(tmp_path / "t" / f"{name}.parquet", pa.table([[1], [1]], names=names))

    with pytest.raises(DefinitionError, match="in one place"):
        compare_files(tmp_path / "t", tmp_path / "t")
