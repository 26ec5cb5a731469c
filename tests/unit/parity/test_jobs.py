"""Jobs modelled on public examples, with the exact findings of each.

Those in `jobs` can be planned by Spark too; those in `followed` show assignments, functions, classes, loops and views.
"""

import json
from pathlib import Path

import pytest

from cutover.cli import app
from cutover.cli.parity import check_file
from cutover.errors import DefinitionError
from cutover.parity.job import check_job
from cutover.parity.rules import RULES, Construct, ParityFinding, check_sql

HERE = Path(__file__).parent
JOBS = sorted(path for folder in ("jobs", "followed") for path in (HERE / folder).iterdir() if path.is_file())


def expected(job: Path) -> set[str]:
    header = job.read_text(encoding="utf-8").splitlines()[0].partition("expects:")[2]
    return {word.strip() for word in header.split(",")} - {"none"}


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.name)
def test_constructs_that_prevent_agreement_are_found(job: Path) -> None:
    assert {str(finding.construct) for finding in check_file(job)} == expected(job)


def test_every_construct_is_in_a_job_and_three_in_ten_jobs_are_sound() -> None:
    expectations = [expected(job) for job in JOBS]

    assert sum(not constructs for constructs in expectations) >= 0.3 * len(JOBS)
    assert set().union(*expectations) == {str(construct) for construct in Construct}
    assert {*RULES} == {*Construct}


@pytest.mark.parametrize("construct", list(Construct))
def test_a_finding_links_to_its_section_of_the_page(construct: Construct) -> None:
    finding = ParityFinding(file="job.py", line=1, construct=construct, subject="x")
    file, _, place = finding.page.partition("#")
    row = next(line for line in Path(file).read_text(encoding="utf-8").splitlines() if f'<a id="{place}"></a>' in line)

    assert finding.sentence.endswith(f"({finding.page}).")
    assert row.endswith(f"| {RULES[construct].reason} | {RULES[construct].alternative} |")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT x FROM t WHERE at > now()", [("clock", 1, "now")]),
        ("SELECT\n  x,\n  rand() AS r\nFROM t", [("random", 3, "rand")]),
        ("SELECT unix_timestamp(at), unix_timestamp() FROM t", [("clock", 1, "current_timestamp")]),
        ("SELECT sum(amount) OVER (PARTITION BY k ORDER BY at) FROM t", []),
        ("SELECT last(x) OVER (PARTITION BY k ORDER BY at, _offset) FROM t", []),
        ("SELECT lag(x) OVER (PARTITION BY k ORDER BY at) FROM t", [("ties", 1, "lag")]),
        ("SELECT array_sort(collect_list(x)) FROM t", []),
        ("SELECT x FROM t ORDER BY x LIMIT 3", []),
        ("SELECT window.start, rand() AS r FROM t GROUP BY window(at, '1 hour')", [("random", 1, "rand")]),
        ("SELECT sum(x) OVER w FROM t WINDOW w AS (PARTITION BY k)", []),
        ("SELECT (SELECT y FROM u LIMIT 1) FROM t", [("limit", 1, "limit")]),
        ("SELECT avg(CAST(x AS FLOAT)) FROM t", [("float-sum", 1, "avg of a double")]),
        ("SELECT 'now()', `rand` FROM t -- uuid()", []),
    ],
)
def test_sql_is_parsed_as_sql(text: str, expected: list[tuple[str, int, str]]) -> None:
    assert [(str(finding.construct), finding.line, finding.subject) for finding in check_sql(text, "x.sql")] == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("spark.sql('SELECT uuid() FROM t')", ["random"]),
        ("df.selectExpr('a', 'collect_list(b)')", ["order"]),
        ("df.withColumn('now', F.lit(1)).filter('now > 0')", []),
        ("def rand():\n    return 4\nx = rand()\ndf.withColumn('x', F.lit(x))", []),
        ("df.agg(F.sort_array(F.collect_list('x')))", []),
        ("df.agg(F.sum(F.col('x').cast('double')))", ["float-sum"]),
        ("spark.table('t').dropDuplicates(['id'])", []),
        ("df.dropDuplicates(['id'])", ["not-understood"]),  # of a stream or a batch
        ("df.groupBy('a').count()\ndf.groupBy('b').count()", []),
    ],
)
def test_a_job_is_parsed_as_python(source: str, expected: list[str]) -> None:
    assert [str(finding.construct) for finding in check_job(source, "x.py")] == expected


@pytest.mark.parametrize(("name", "text"), [("x.sql", "SELEC x FRM ("), ("x.py", "def ("), ("x.txt", "")])
def test_invalid_file_is_rejected(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")

    with pytest.raises(DefinitionError, match="expected"):
        check_file(tmp_path / name)
    with pytest.raises(DefinitionError, match="expected a text in UTF-8"):
        check_file(tmp_path / "none.sql")


def test_command_prints_construct_reason_and_alternative(capsys: pytest.CaptureFixture[str]) -> None:
    bad, good = (str(next(job for job in JOBS if job.name == name)) for name in ("basket.sql", "basket_sorted.sql"))

    assert app.main(["parity", bad, good]) == 1
    output = capsys.readouterr().out
    assert "basket.sql:2: order: `collect_list`: its result depends on the order of rows" in output
    assert output.splitlines()[-1].startswith("1 construct in 2 files on which a stream and a batch differ.")
    assert app.main(["parity", good, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []
