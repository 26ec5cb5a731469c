"""Decorators, declarations, loops, generators and coroutines are followed; names missing from the file are reported."""

import pytest

from cutover.parity.job import check_job

READ = 'spark.readStream.format("kafka").option("subscribe", "t").option("startingOffsets", "earliest").load()'
MARK = 'withWatermark("timestamp", "1 hour")'
COUNT = "groupBy(F.window('timestamp', '1 hour')).count()"
SINK = '.writeStream.format("delta").option("checkpointLocation", "/c").start("/o")'
START = "import functools\nimport sys\nfrom pyspark.sql import functions as F\n"


def find(source: str) -> list[tuple[str, int]]:
    return [(str(finding.construct), finding.line) for finding in check_job(source, "x.py")]


def kinds(source: str) -> set[str]:
    return {construct for construct, _ in find(START + source)}


DECORATED = f"""
def marked(f):
    @functools.wraps(f)
    def inner(*a, **k):
        return f(*a, **k).{MARK}
    return inner
@marked
def rows():
    return {READ}
"""
MADE = f"""
def marked(delay):
    def mark(f):
        return lambda: f().withWatermark("timestamp", delay)
    return mark
@marked("1 hour")
def rows():
    return {READ}
"""
METHOD = f"""
def marked(f):
    def inner(self):
        return f(self).{MARK}
    return inner
class Job:
    @marked
    def load(self):
        return {READ}
def rows():
    return Job().load()
"""
GLOBAL = f"""
s = {READ}
def mark():
    global s
    s = s.{MARK}
def rows():
    mark()
    return s
"""
ENCLOSING = f"""
def rows():
    s = {READ}
    def mark():
        nonlocal s
        s = s.{MARK}
    mark()
    return s
"""
COUNTED = f"""
s = {READ}
for i in range(3):
    s = s.{MARK}
def rows():
    return s
"""
FOREVER = f"""
s = {READ}
while True:
    s = s.{MARK}
    break
def rows():
    return s
"""
YIELDED = f"""
def generate():
    yield "a", {READ}.{MARK}
for name, s in generate():
    pass
def rows():
    return s
"""


@pytest.mark.parametrize("source", [DECORATED, MADE, METHOD, GLOBAL, ENCLOSING, COUNTED, FOREVER, YIELDED])
def test_a_watermark_is_found_wherever_it_is_set(source: str) -> None:
    assert kinds(f"{source}rows().{COUNT}{SINK}") == {"watermark"}


def test_a_loop_that_may_not_run_and_a_decorator_from_elsewhere_are_named() -> None:
    loop = f"s = {READ}\nfor each in sys.argv:\n    s = s.{MARK}\n"
    elsewhere = f"from shop import marked\n@marked\ndef rows():\n    return {READ}\n"

    assert kinds(f"{loop}s.{COUNT}{SINK}") == {"watermark", "not-understood"}
    assert kinds(f"{elsewhere}rows().{COUNT}{SINK}") == {"not-understood"}


def test_a_coroutine_is_followed() -> None:
    source = (
        'import asyncio\nasync def run():\n    spark.readStream.format("kafka").load()' + SINK + "\nasyncio.run(run())"
    )

    assert find(source) == [("offsets", 3)]


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("df = load_events('raw')\ndf.write.mode('overwrite').saveAsTable('x')", 1),
        ("load_events('raw').groupBy('k').count().show()", 1),
        ("from shop.io import *\ndf = load_events('raw')\nspark.table('a').show()", 2),
        ("from pyspark.sql.functions import *\nload_events('raw').groupBy('k').count().show()", 2),
        ("from shop import Store\nstore = Store(spark)\nspark.table('a').show()", 2),
        ("spark.table('a').show()\nexec(open('rest.py').read())", 2),
        ("import importlib\nimportlib.import_module('jobs').run(spark)", 2),
        ("# MAGIC %run ./common\nspark.table('a').show()", 1),
        ("spark.table('a').show()\n# MAGIC %sql\n# MAGIC SELECT rand() FROM t", 2),
        ("dbutils.notebook.run('rest', 60)\nspark.table('a').show()", 1),
    ],
)
def test_a_name_that_is_not_in_the_file_is_not_understood(source: str, line: int) -> None:
    findings = find(source)

    assert ("not-understood", line) in findings
    assert {construct for construct, _ in findings} == {"not-understood"}


@pytest.mark.parametrize(
    "source",
    [
        "# MAGIC %md A title\nspark.table('a').show()",
        "display(spark.table('a'))",
        (
            "from pyspark.sql.functions import *\nfrom pyspark.sql.types import *\n"
            "spark.table('a').select(col('b').cast(StringType()), lit(1)).show()"
        ),
        "from delta.tables import DeltaTable\nDeltaTable.forName(spark, 't').toDF().show()",
    ],
)
def test_names_of_spark_are_understood(source: str) -> None:
    assert find(source) == []
