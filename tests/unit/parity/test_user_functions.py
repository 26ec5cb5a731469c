"""User functions that depend on the clock, on randomness or on another system, under any name."""

import pytest

from cutover.parity.job import check_job
from cutover.parity.rules import is_clock, is_external_service, is_pure, is_random

START = """
import random, requests, time, json, re, lib
import numpy as np
import redis
from datetime import datetime
from functools import partial
from urllib.parse import quote
from pyspark.sql import functions as F
from pyspark.sql.functions import udf, pandas_udf
client = redis.Redis()
class Geo:
    def __init__(self, url):
        self.url = url
        self.session = requests.Session()
    def country(self, ip):
        return requests.get(self.url + ip).text
    def city(self, ip):
        return self.session.get(self.url + ip).text
    def upper(self, text):
        return text.upper()
    def __call__(self, ip):
        return self.country(ip)
geo = Geo("http://geo/")
def draw():
    return random.gauss(0, 1)
def shift(x):
    return x + draw()
def clean(x):
    return json.dumps(re.sub("a", "b", quote(x)))
"""


def find(source: str) -> set[tuple[str, str]]:
    job = f"{START}{source}\nspark.table('a').select(f('x')).write.mode('overwrite').saveAsTable('b')"
    return {(str(finding.construct), finding.subject) for finding in check_job(job, "x.py")}


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("f = udf(lambda x: x + random.gauss(0, 1))", "lambda calls random.gauss"),
        ("f = udf(lambda x: x + np.random.rand())", "lambda calls numpy.random.rand"),
        ("f = udf(lambda x: datetime.now())", "lambda calls datetime.datetime.now"),
        ("f = udf(lambda x: time.monotonic())", "lambda calls time.monotonic"),
        ("f = udf(lambda x: client.get(x))", "lambda calls redis.Redis.get"),
        ("f = udf(geo.country)", "country calls requests.get"),
        ("f = udf(geo.city)", "city calls requests.Session.get"),
        ("f = udf(Geo('x'))", "Geo.country calls requests.get"),
        ("f = udf(shift)", "shift calls random.gauss"),
        ("f = udf(partial(shift))", "shift calls random.gauss"),
        ("f = udf(f=shift)", "shift calls random.gauss"),
        ("spark.udf.register('f', shift)\nf = F.col", "shift calls random.gauss"),
        ("g = lambda x: random.random()\nf = F.udf(g, 'double')", "lambda calls random.random"),
        ("@pandas_udf('double')\ndef f(x):\n    return x + np.random.normal()", "f calls numpy.random.normal"),
    ],
)
def test_a_user_function_is_followed_to_its_calls(source: str, reason: str) -> None:
    assert ("udf", reason) in find(source)


@pytest.mark.parametrize(
    "source",
    [
        "f = udf(clean)",
        "f = udf(geo.upper)",
        "f = udf(lambda x: x.strip().lower())",
        "f = udf(lambda x: np.log(x))",
        "f = udf(lambda x: random.Random(x).random())",
        "f = udf(lambda x: {'a': 1}.get(x))",
        "f = udf(lambda x: datetime.strptime(x, '%Y').isoformat())",
    ],
)
def test_a_pure_function_is_sound(source: str) -> None:
    assert find(source) == set()


@pytest.mark.parametrize("body", ["lib.look_up(x)", "open(x).read()"])
def test_a_function_of_another_module_is_named(body: str) -> None:
    assert {construct for construct, _ in find(f"f = udf(lambda x: {body})")} == {"not-understood"}


def test_functions_of_python_are_known_by_their_names() -> None:
    assert is_clock("datetime.date.today")
    assert is_random("random.gauss")
    assert is_external_service("urllib.request.urlopen")
    assert is_pure("urllib.parse.quote")
    assert is_pure("os.path.basename")
    assert not is_pure("os.getenv")
    assert not is_pure("lib.parse")
