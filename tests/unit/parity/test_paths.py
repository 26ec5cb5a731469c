"""Paths through a job: branches of conditions, failing bodies of `try`, and loops that end early."""

import pytest

from cutover.parity.job import check_job

READ = 'spark.readStream.format("kafka").option("subscribe", "t").option("startingOffsets", "earliest").load()'
MARK = 'withWatermark("timestamp", "1 hour")'
COUNT = "groupBy(F.window('timestamp', '1 hour')).count()"
SINK = 'writeStream.format("delta").option("checkpointLocation", "/c").start("/o")'
START = "import contextlib\nimport sys\nfrom pyspark.sql import functions as F\n"


def kinds(source: str) -> set[str]:
    return {str(finding.construct) for finding in check_job(START + source, "x.py")}


def marked_by(*lines: str) -> set[str]:
    """Find constructs if these lines decide on the watermark of `df`."""
    return kinds("\n".join([f"df = {READ}", *lines, f"df.{COUNT}.{SINK}"]))


@pytest.mark.parametrize(
    "handler",
    ["    raise", "    sys.exit(1)", "    fail()", f"    df = df.{MARK}", "    df = None\n    raise ValueError"],
)
def test_a_successful_body_has_set_the_watermark(handler: str) -> None:
    fail = "def fail():\n    raise SystemExit(2)"

    for kind in ("except", "except*"):
        assert marked_by(fail, "try:", f"    df = df.{MARK}", f"{kind} ValueError:", handler) == {"watermark"}


@pytest.mark.parametrize(
    "lines",
    [
        ["try:", f"    df = df.{MARK}", "except Exception as error:", "    print(error)"],
        ["try:", f"    df = df.{MARK}", "    df = df.where('key = 1')", "except ValueError:", "    pass"],
        ["with contextlib.suppress(Exception):", f"    df = df.{MARK}"],
        [
            "class Quiet:",
            "    def __enter__(self):",
            "        return self",
            "    def __exit__(self, *error):",
            "        return True",
            "with Quiet():",
            f"    df = df.{MARK}",
        ],
        [
            "def mark(rows):",
            "    try:",
            f"        return rows.{MARK}",
            "    except Exception:",
            "        return rows",
            "df = mark(df)",
        ],
        [
            "class Job:",
            "    def __init__(self, rows):",
            "        self.rows = rows",
            "    def mark(self):",
            "        try:",
            f"            self.rows = self.rows.{MARK}",
            "        except Exception:",
            "            print('no watermark')",
            "job = Job(df)",
            "job.mark()",
            "df = job.rows",
        ],
    ],
)
def test_a_body_that_may_fail_leaves_the_watermark_unknown(lines: list[str]) -> None:
    job = check_job(START + "\n".join([f"df = {READ}", *lines, f"df.{COUNT}.{SINK}"]), "x.py")

    assert {str(finding.construct) for finding in job} == {"watermark", "not-understood"}
    assert [f.subject for f in job if "without withWatermark" in f.subject and "if the try of line" in f.subject]


def test_a_name_of_a_body_that_fails_has_any_of_its_values() -> None:
    lines = ["try:", "    df = None", f"    df = {READ}", f"    df = df.{MARK}", "except ValueError:", "    pass"]

    assert marked_by(*lines) == {"watermark", "not-understood"}


@pytest.mark.parametrize(
    "lines",
    [
        ["late = len(sys.argv) > 1", "if late:", f"    df = df.{MARK}"],
        ["late = sys.argv[1]", f"df = df.{MARK} if late else df"],
        ["match sys.argv[1]:", "    case 'late':", f"        df = df.{MARK}", "    case _:", "        pass"],
        ["rows = {'a': df}", "if sys.argv[1]:", f"    rows['a'] = rows['a'].{MARK}", "df = rows['a']"],
        ["def mark():", "    global df", "    if sys.argv[1]:", f"        df = df.{MARK}", "mark()"],
        [
            "df.createTempView('v')",
            "if sys.argv[1]:",
            f"    df.{MARK}.createOrReplaceTempView('v')",
            "df = spark.table('v')",
        ],
    ],
)
def test_both_branches_of_an_unknown_condition_are_checked(lines: list[str]) -> None:
    assert marked_by(*lines) == {"watermark", "unbounded-state"}


@pytest.mark.parametrize(
    "lines",
    [
        ["if sys.argv[1]:", f"    df = df.{MARK}", "else:", f"    df = df.{MARK}"],
        ["if sys.argv[1] == 'a':", f"    df = df.{MARK}", "else:", "    raise ValueError"],
        ["conf = {'mark': True}", "if conf['mark']:", f"    df = df.{MARK}"],
        ["conf = {'mark': {'delay': '1 hour'}}", "if conf.get('mark'):", f"    df = df.{MARK}"],
        ["topic = 'late'", "if topic in ('late', 'later'):", f"    df = df.{MARK}"],
        ["if df is not None:", f"    df = df.{MARK}"],
        ["match sys.argv[1]:", "    case 'late':", f"        df = df.{MARK}", "    case _:", f"        df = df.{MARK}"],
        ["with open('x.json') as file:", f"    df = df.{MARK}"],
        ["try:", "    delay = sys.argv[1]", "except IndexError:", "    delay = '1 hour'", f"df = df.{MARK}"],
        ["try:", "    print(1)", "finally:", f"    df = df.{MARK}"],
        [
            "@contextlib.contextmanager",
            "def marked(rows):",
            f"    yield rows.{MARK}",
            "with marked(df) as rows:",
            "    df = rows",
        ],
        ["for topic in ['a']:", "    if topic == 'b':", "        continue", f"    df = df.{MARK}"],
    ],
)
def test_a_watermark_set_on_every_path_is_the_only_finding(lines: list[str]) -> None:
    assert marked_by(*lines) == {"watermark"}


@pytest.mark.parametrize(
    ("first_condition", "second"),
    [
        ("late", "late"),
        ("not batch", "not batch"),
        ("mode == 'late'", "mode == 'late'"),
        ("mode != 'batch'", "mode != 'batch'"),
        ("args.late", "args.late"),
    ],
)
def test_equal_conditions_have_equal_results(first_condition: str, second: str) -> None:
    source = "def run(late, batch, mode, args):\n"
    body = f"    df = {READ}\n    if {first_condition}:\n        df = df.{MARK}\n    totals = df.{COUNT}\n"

    assert kinds(f"{source}{body}    if {second}:\n        totals.{SINK}") == {"watermark"}
    assert kinds(f"{source}{body}    if not ({second}):\n        totals.{SINK}") == {"unbounded-state"}
    assert kinds(f"{source}{body}    totals.{SINK}") == {"watermark", "unbounded-state"}


def test_a_condition_of_another_value_is_independent() -> None:
    source = f"def run(late):\n    df = {READ}\n    if late:\n        df = df.{MARK}\n    late = sys.argv[1]\n"

    assert kinds(f"{source}    if late:\n        df.{COUNT}.{SINK}") == {"watermark", "unbounded-state"}


def test_many_conditions_hide_no_branch() -> None:
    conditions = [f"if sys.argv[{number}]:\n    df = df.where('a > {number}')" for number in range(9)]

    assert marked_by(*conditions, "if sys.argv[10]:", f"    df = df.{MARK}") == {"watermark", "unbounded-state"}


def test_iterations_that_end_early_start_their_queries_once() -> None:
    query_start = '.writeStream.format("delta").option("checkpointLocation", f"/c/{topic}").start(f"/o/{topic}")'
    loop = "for topic in ['a', 'b']:\n    if topic == 'a':\n        df{0}\n        continue\n    df{0}"

    assert kinds(f"df = {READ}\n{loop.format(query_start)}") == set()
    names = "import yaml\nfor topic in yaml.safe_load(open('t.yml'))['topics']:\n"
    start = '.writeStream.format("delta").option("checkpointLocation", f"/c/{topic[\'name\']}").start("/o")'
    assert kinds(f"{names}    {READ}{start}") == set()


def test_a_retry_starts_the_same_query_again() -> None:
    start = f"def start():\n    return {READ}.{SINK}\n"

    assert kinds(f"{start}for attempt in range(3):\n    start()") == set()
    topics = READ.replace('"t"', "topic")
    assert kinds(f"for topic in ['a', 'b']:\n    {topics}.{SINK}") == {"checkpoint"}


def test_a_class_extends_what_its_base_returns() -> None:
    source = """
class Base:
    def __init__(self, spark):
        self.session = spark
    def options(self):
        return {"subscribe": "t"}
    def read(self):
        return self.session.readStream.format("kafka").options(**self.options()).load()
class Late(Base):
    def __init__(self, spark):
        super().__init__(spark)
    def options(self):
        options = super().options()
        options["startingOffsets"] = "latest"
        return options
"""
    assert kinds(f"{source}Late(spark).read().{SINK}") == {"offsets"}
    assert kinds(f"{source.replace('latest', 'earliest')}Late(spark).read().{SINK}") == set()


def test_a_helper_that_checks_for_streaming_is_followed() -> None:
    helper = f"def count(df):\n    if df.isStreaming:\n        df = df.{MARK}\n    return df.{COUNT}\n"
    batch = "count(spark.table('a')).write.mode('overwrite').saveAsTable('b')"

    assert kinds(f"{helper}count({READ}).{SINK}\n{batch}") == {"watermark"}


@pytest.mark.parametrize(
    "start",
    [
        "list(map(run, ['a', 'b']))",
        "with ThreadPoolExecutor() as pool:\n    pool.map(run, ['a', 'b'])",
        "pool = ThreadPoolExecutor()\nfor topic in ['a', 'b']:\n    pool.submit(run, topic)",
        "for topic in ['a', 'b']:\n    threading.Thread(target=run, args=(topic,)).start()",
    ],
)
def test_a_function_that_a_pool_runs_is_followed(start: str) -> None:
    head = "import threading\nfrom concurrent.futures import ThreadPoolExecutor\n"
    rows = READ.replace('"t"', "topic")

    assert kinds(f"{head}def run(topic):\n    {rows}.{SINK}\n{start}") == {"checkpoint"}


@pytest.mark.parametrize(
    "rows",
    [
        f"rows = list(map(lambda df: df.{MARK}, [{READ}]))[0]",
        f"rows = {{name: {READ}.{MARK} for name in ['a', 'b']}}['a']",
        f"rows = next(iter([{READ}.{MARK}]))",
        f"rows = [{READ}, {READ}.{MARK}][1:][0]",
        f"rows = [{READ}.{MARK}].pop()",
        f"class Job:\n    @property\n    def rows(self):\n        return {READ}.{MARK}\nrows = Job().rows",
    ],
)
def test_a_stored_dataframe_is_followed(rows: str) -> None:
    assert kinds(f"{rows}\nrows.{COUNT}.{SINK}") == {"watermark"}
