"""Lists and dicts that a job changes: removed, replaced and optional items on each path."""

import pytest

from cutover.parity.job import check_job

START = "import sys\nfrom pyspark.sql import functions as F\n"
OPTIONS = 'o = {"subscribe": "t", "startingOffsets": "earliest"}\n'
STREAM = """
(spark.readStream.format("kafka").options(**o).load()
 .writeStream.format("delta").option("checkpointLocation", "/c").start("/o"))
"""
TABLE = '\nspark.table("raw").selectExpr(*cols).write.mode("overwrite").saveAsTable("o")\n'


def kinds(source: str) -> set[str]:
    return {str(finding.construct) for finding in check_job(START + source, "x.py")}


@pytest.mark.parametrize(
    "change",
    [
        'o.pop("startingOffsets")',
        'o.pop("startingOffsets", None)',
        'del o["startingOffsets"]',
        "o.clear()",
        'if sys.argv[1]:\n    o.pop("startingOffsets")',
        'if sys.argv[1]:\n    pass\nelse:\n    del o["startingOffsets"]',
        'def fix(d):\n    d.pop("startingOffsets")\nfix(o)',
        'for k in ["startingOffsets"]:\n    del o[k]',
        'a = o\na.pop("startingOffsets")',
        'o = {k: v for k, v in o.items() if k != "startingOffsets"}',
        'o = {k: v for k, v in o.items() if not k.startswith("starting")}',
        "o = {k: v for k, v in o.items() if k in sys.argv}",
        'o.update([("startingOffsets", "latest")])',
        'o |= {"startingOffsets": "latest"}',
        'o = dict([("subscribe", "t")])',
        'o = {"subscribe": "t"}\nif sys.argv[1]:\n    o["startingOffsets"] = "earliest"',
        'o["startingOffsets"] = None',
    ],
)
def test_a_removed_option_has_its_default(change: str) -> None:
    assert kinds(OPTIONS + change + STREAM) == {"offsets"}


@pytest.mark.parametrize(
    "change",
    [
        'o["startingOffsets"] = "latest"\no.pop("startingOffsets")\no["startingOffsets"] = "earliest"',
        'o.setdefault("startingOffsets", "latest")',
        'p = dict(o)\np.pop("startingOffsets")',
        "p = o.copy()\np.clear()",
        'o["failOnDataLoss"] = "false"\no.pop("failOnDataLoss")',
        'if sys.argv[1]:\n    o.pop("startingOffsets")\n    o["startingOffsets"] = "earliest"',
        'p = {"startingOffsets": "latest"}\np.pop("startingOffsets")\no.update(p)',
    ],
)
def test_a_restored_or_copied_option_counts(change: str) -> None:
    assert kinds(OPTIONS + change + STREAM) == set()


@pytest.mark.parametrize("change", ["o.pop(sys.argv[1])", "del o[sys.argv[1]]", "o.popitem()"])
def test_a_removal_that_cannot_be_followed_is_reported(change: str) -> None:
    assert kinds(OPTIONS + change + STREAM) == {"not-understood"}


def test_a_removed_checkpoint_is_none() -> None:
    source = 'c = {"checkpointLocation": "/c"}\ndel c["checkpointLocation"]\n'
    read = 'spark.readStream.format("kafka").option("subscribe", "t").option("startingOffsets", "earliest").load()'

    assert kinds(f'{source}{read}.writeStream.options(**c).start("/o")') == {"checkpoint"}


@pytest.mark.parametrize(
    ("change", "is_random"),
    [
        ("", True),
        ("cols.pop()", False),
        ("cols.pop(0)", True),
        ("cols.remove('uuid() u')", False),
        ("cols.reverse(); cols.pop()", True),
        ("del cols[1]", False),
        ("cols[1] = 'k2'", False),
        ("cols.clear(); cols.append('k')", False),
        ("cols = [c for c in cols if not c.startswith('uuid')]", False),
        ("cols = list(filter(lambda c: c != 'uuid() u', cols))", False),
        ("cols = [c for c in cols if c in sys.argv]", True),
        ("cols.remove(sys.argv[1])", True),
        ("if sys.argv[1]:\n    cols.pop()", True),
        ("others = list(cols)\nothers.pop()", True),
        ("cols = ['k']\ncols += ['uuid() u']", True),
        ("cols = ['k']\ncols.insert(0, 'uuid() u')", True),
        ("cols = cols[:1]", False),
    ],
)
def test_items_of_a_list_are_followed(change: str, is_random: bool) -> None:
    assert kinds(f"cols = ['k', 'uuid() u']\n{change}{TABLE}") == ({"random"} if is_random else set())
