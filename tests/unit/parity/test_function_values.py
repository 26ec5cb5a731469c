"""Functions that a job holds as values: Spark's functions, and user functions that another function receives."""

import pytest

from cutover.parity.job import check_job

START = "import functools, random, sys, time\nfrom pyspark.sql import functions as F\ndf = spark.table('raw')\n"
SINK = ".write.mode('overwrite').saveAsTable('o')\n"
DIRECT = "def add(df, fn):\n    return df.withColumn('t', F.udf(fn)('x'))\n"
ENCLOSED = "def add(df, fn):\n    return df.withColumn('t', F.udf(lambda x: fn(x))('x'))\n"
CLASS = "class C:\n    fn = staticmethod(F.rand)\n    def run(self):\n        return df.select(self.fn())\n"
ADD = "def add(df, fn):\n    return df.withColumn('n', fn())\n"


def kinds(source: str) -> set[str]:
    return {str(finding.construct) for finding in check_job(START + source, "x.py")}


@pytest.mark.parametrize(
    "source",
    [
        f"{ADD}add(df, F.monotonically_increasing_id){SINK}",
        f"{ADD}add(df, functools.partial(F.rand, 1)){SINK}",
        f"def add(df, fn=F.rand):\n    return df.withColumn('n', fn())\nadd(df){SINK}",
        f"df.withColumn('n', {{'r': F.rand}}['r']()){SINK}",
        f"df.withColumn('n', [F.upper, F.rand][1]()){SINK}",
        f"f = F.rand if len(sys.argv) > 1 else F.randn\ndf.withColumn('n', f()){SINK}",
        f"df.withColumn('n', getattr(F, 'rand')()){SINK}",
        f"df.withColumn('n', F.call_function('uuid')){SINK}",
        f"class C:\n    fn = F.rand\ndf.withColumn('n', C.fn()){SINK}",
        f"{CLASS}C().run(){SINK}",
        f"df.select(*[f() for f in (F.rand, F.randn)]){SINK}",
        f"for name, f in {{'a': F.rand}}.items():\n    df = df.withColumn(name, f())\ndf{SINK}",
    ],
)
def test_a_function_held_as_a_value_is_checked(source: str) -> None:
    assert kinds(source) == {"random"}


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        ("getattr(F, sys.argv[1])()", {"not-understood"}),
        ("F.call_function(sys.argv[1])", {"not-understood"}),
        ("F.call_function('mine', 'a')", {"not-understood"}),
        ("getattr(F, 'upper')('a')", set()),
        ("{'u': F.upper}['u']('a')", set()),
    ],
)
def test_only_an_unknown_function_is_not_understood(function: str, expected: set[str]) -> None:
    assert kinds(f"df.withColumn('n', {function}){SINK}") == expected


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ("*[getattr(F, f)(c) for c, f in {'v': 'first'}.items()]", {"order"}),
        ("*[getattr(F, f)(c) for c, f in {'v': 'max'}.items()]", set()),
        ("F.sort_array(getattr(F, 'collect_list')('v'))", set()),
    ],
)
def test_aggregates_by_name_are_checked(columns: str, expected: set[str]) -> None:
    assert kinds(f"df.groupBy('k').agg({columns}){SINK}") == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (f"{DIRECT}add(df, lambda x: time.time())", {"udf"}),
        (f"{DIRECT}add(df, time.time)", {"udf"}),
        (f"{ENCLOSED}add(df, lambda x: random.random())", {"udf"}),
        (f"{DIRECT}add(df, lambda x: x + 1)", set()),
        (f"{ENCLOSED}add(df, lambda x: x + 1)", set()),
        ("def add(df, fn):\n    return df.mapInPandas(fn, 'a int')\nadd(df, lambda rows: time.time())", {"udf"}),
        ("from other import model\ndf.withColumn('t', F.udf(model.predict)('x'))", {"not-understood"}),
    ],
)
def test_a_user_function_that_another_function_receives_is_checked(body: str, expected: set[str]) -> None:
    assert kinds(body + SINK) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("def build(df, fn):\n    return df.withColumn('n', fn())", {"not-understood"}),
        (f"df.withColumn('n', vars(F)['rand']()){SINK}", {"not-understood"}),
        (f"df.groupBy('k').agg(vars(F)['first']('v')){SINK}", {"not-understood"}),
        (f"def rows(day):\n    return df.where(F.col('dt') == day())\nrows(lambda: sys.argv[1]){SINK}", set()),
    ],
)
def test_a_column_of_an_unknown_function_is_not_understood(source: str, expected: set[str]) -> None:
    assert kinds(source) == expected
