"""Definitions that cannot be run: rejected on load, with the field, the expected value, the actual value and a hint."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cutover.definition import (
    ApproxDistinct,
    Avg,
    Bag,
    Count,
    EachEpoch,
    Expect,
    Fixed,
    Global,
    Lookup,
    Max,
    Pipeline,
    Policy,
    Quantile,
    Sql,
    Stddev,
    Sum,
    Topic,
    TopK,
    Variance,
)
from cutover.definition.checks.definition import check_definition
from cutover.definition.loading import catalogue
from cutover.definition.measures.kinds import Measure
from cutover.errors import DefinitionError
from cutover.lake.tables.schemas import batch_schema
from cutover.settings import Settings

TOPIC = Topic(
    name="t",
    schema="at timestamp, carrier string, amount bigint, price double, cost decimal(30,2), `from` string",
    event_time="at",
)
WITH_ID = replace(TOPIC, schema="at timestamp, carrier string, seq bigint NOT NULL", record_id="seq")
GOOD = Pipeline(name="p", source=TOPIC, key=("carrier",), window=Fixed(hours=1), measures={"n": Count()})


def schema(text: str) -> dict[str, Any]:
    return {"source": replace(TOPIC, schema=text)}


def ads(**changes: Any) -> dict[str, Any]:
    lookup = Lookup(**{"table": "ads", "on": {"carrier": "id"}, "columns": {"c": "string"}} | changes)
    return {"lookups": {"ads": lookup}}


def expects(expectation_type: str, **arguments: Any) -> dict[str, Any]:
    return {"contract": (Expect(type=expectation_type, arguments=arguments),)}


BAD: Mapping[str, tuple[dict[str, Any], str]] = {
    "evidence of few rows": (
        {"policy": Policy(min_judged_share=0.49)},
        "policy.min_judged_share: expected a number from 0.5 to 1",
    ),
    "evidence that no run is fresh enough for": (
        {"policy": Policy(fresh_within="0 days")},
        "policy.fresh_within: expected a duration longer than zero",
    ),
    "hazards of no time at all": (
        {"policy": Policy(hazards=("restart",), hazards_within="0 days")},
        "policy.hazards_within: expected a duration longer than zero",
    ),
    "name with a path": ({"name": "../x"}, "expected letters, digits and `_`"),
    "name with a line break": ({"name": "p\n"}, "expected letters, digits and `_`"),
    "name of 300 characters": ({"name": "x" * 300}, "at most 63"),
    "measure with SQL in its name": ({"measures": {"a; DROP": Count()}}, "measures: expected letters"),
    "key that is no column": ({"key": ("carier",)}, "did you mean `carrier`?"),
    "key as a text": ({"key": "carrier"}, 'write ("carrier",)'),
    "no key": ({"key": ()}, "a tuple of at least one column"),
    "key twice": ({"key": ("carrier", "carrier")}, "`carrier` twice"),
    "key of doubles": ({"key": ("price",)}, "exact equality"),
    "key that SQL uses": ({"key": ("from",)}, "renames it"),
    "no measures": ({"measures": {}}, "at least one"),
    "measure that does not merge": ({"measures": {"n": "median(amount)"}}, "that merge"),
    "record id that is no column": ({"source": replace(TOPIC, record_id="amont")}, "did you mean `amount`?"),
    "record id that may be null": ({"source": replace(TOPIC, record_id="amount")}, "write `amount bigint NOT NULL`"),
    "record id of doubles": (
        {"source": replace(TOPIC, schema="at timestamp, carrier string, x double NOT NULL", record_id="x")},
        "exact equality",
    ),
    "horizon without ids": ({"source": replace(TOPIC, id_horizon="1 hour")}, "without ids there is no state to bound"),
    "horizon of nothing": ({"source": replace(WITH_ID, id_horizon="0 hours")}, "a duration longer than zero"),
    "ids over all time": ({"source": WITH_ID, "window": Global()}, "a window of all time never closes"),
    "measure of an unknown column": ({"measures": {"n": Sum("amont")}}, "did you mean `amount`?"),
    "sum of text": ({"measures": {"n": Sum("carrier")}}, "a number to add up"),
    "sum that can overflow": ({"measures": {"n": Sum("cost")}}, "at most 28 digits"),
    "variance of text": ({"measures": {"n": Variance("carrier")}}, "got string: `carrier`"),
    "variance that can overflow": ({"measures": {"n": Stddev("amount")}}, "Hint: CAST(amount AS decimal(14,0)) makes"),
    "top-k of doubles": ({"measures": {"n": TopK("price")}}, "exact equality"),
    "top-k of too many": ({"measures": {"n": TopK("carrier", 1001)}}, "measures.n: k: expected a whole number from 1"),
    "top-k of a fraction": ({"measures": {"n": TopK("carrier", 2.5)}}, "a whole number from 1 to 1000, got 2.5"),  # type: ignore[arg-type]  # what is tested
    "distinct doubles": ({"measures": {"n": ApproxDistinct("price")}}, "Hint: CAST to decimal(p,s), or floor"),
    "distinct of few": ({"measures": {"n": ApproxDistinct("carrier", k=2)}}, "k: expected a whole number from 16"),
    "bag without a bound": ({"measures": {"n": Bag("carrier", most=0)}}, "measures.n: most: expected a whole number"),
    "quantile of text": ({"measures": {"n": Quantile("carrier", 0.5)}}, "a number, got string: `carrier`"),
    "quantile beyond 1": ({"measures": {"n": Quantile("amount", 50)}}, "measures.n: q: expected a number from 0 to 1"),
    "quantile of many digits": ({"measures": {"n": Quantile("amount", 1 / 3)}}, "at most six digits"),
    "quantile without an error": (
        {"measures": {"n": Quantile("amount", 0.5, error=0)}},
        "error: expected a number from",
    ),
    "measure with the key's name": ({"measures": {"carrier": Count()}}, "`carrier` twice"),
    "measure with a state's name": ({"measures": {"m": Avg("amount"), "m__sum": Count()}}, "`m__sum` twice"),
    "reserved measure": ({"measures": {"_n": Count()}}, "Cutover uses"),
    "reserved column": (schema("at timestamp, window_start string"), "Cutover uses"),
    "column of the parser": (schema("at timestamp, __text string"), "Cutover uses"),
    "derived column twice": ({"derive": {"x": "amount", "X": "amount"}}, "`X` twice"),
    "derived column of the schema's": ({"derive": {"Amount": "1"}}, "not a column of the schema"),
    "where that is no condition": ({"where": "amount + 1"}, "where: expected a condition, got bigint"),
    "where that does not parse": ({"where": "amount >"}, "does not parse as Spark SQL"),
    "where with an unknown column": ({"where": "amout > 1"}, "did you mean `amount`?"),
    "where over a derived column": ({"derive": {"d": "amount"}, "where": "d > 1"}, "unknown column `d`"),
    "random": ({"derive": {"r": "rand()"}}, "cannot be replayed"),
    "the clock": ({"where": "at < now()"}, "cannot be replayed"),
    "an aggregate": ({"derive": {"s": "sum(amount)"}}, "aggregates"),
    "event time that is no column": ({"source": replace(TOPIC, event_time="att")}, "did you mean `at`?"),
    "event time that is no time": ({"source": replace(TOPIC, event_time="amount")}, "a timestamp column"),
    "log time that is no time": ({"source": replace(TOPIC, log_time="carrier")}, "a timestamp column"),
    "time format": (
        {"source": replace(TOPIC, time_format="milis")},
        "iso, seconds, millis, micros, nanos or a pattern such as dd.MM.yyyy HH:mm, got 'milis'",
    ),
    "form of parsing": (
        {"source": replace(TOPIC, parse="lenient")},  # type: ignore[arg-type]  # what is tested
        "strict, from_json, avro, protobuf, csv or text, got 'lenient'",
    ),
    "column that from_json fills itself": (
        {"source": replace(TOPIC, parse="from_json", schema=f"{TOPIC.schema}, _corrupt_record string")},
        "another name than `_corrupt_record`",
    ),
    "isolation": (
        {"source": replace(TOPIC, isolation="none")},  # type: ignore[arg-type]  # what is tested
        "read_committed",
    ),
    "topic name": ({"source": replace(TOPIC, name="a b")}, "a Kafka topic name"),
    "largest value": ({"source": replace(TOPIC, max_value_bytes=10**9)}, "from 1 to 8388608"),
    "unknown type": (schema("at timestamp, x float"), "field `x`: Type: expected one of boolean"),
    "decimal of 39 digits": (schema("at timestamp, x decimal(39,2)"), "expected one of"),
    "field without a type": (schema("at timestamp, x"), "expected a name and a type"),
    "field twice": (schema("at timestamp, x int, X int"), "`X` twice"),
    "empty schema": (schema(" "), "at least one field"),
    "lookup that is none": ({"lookups": {"ads": "ads"}}, "lookups.ads: expected Lookup(table=..., on={...}"),
    "lookup in a folder of no root": (ads(table="../ads"), "an absolute path or a URI, got `../ads`"),
    "lookup on no column": (ads(on={}), "lookups.ads.on: expected at least one column of the row"),
    "lookup on a missing column": (ads(on={"carier": "id"}), "lookups.ads.on: expected a column of at, carrier"),
    "lookup on a double": (ads(on={"price": "id"}), "exact equality, got `price` of type double"),
    "lookup on a column twice": (ads(on={"carrier": "id", "amount": "id"}), "each column of the dimension once"),
    "lookup that takes nothing": (ads(columns={}), "lookups.ads.columns: expected at least one column of the dim"),
    "lookup of an unknown type": (ads(columns={"c": "text"}), "lookups.ads.columns.c: Type: expected one of boolean"),
    "lookup with a column's name": (ads(columns={"Carrier": "string"}), "that no column of the row has yet"),
    "lookup with SQL's name": (ads(columns={"group": "string"}), "not a reserved word of SQL, got `group`"),
    "lookup with SQL in it": (ads(columns={'x" --': "string"}), "lookups.ads.columns: expected letters, digits"),
    "derived column of a lookup's": (ads() | {"derive": {"c": "amount"}}, "of the schema or of a dimension, got `c`"),
    "pipeline in the dimensions' place": ({"name": "dimensions"}, "other than those of the lake's own folders"),
    "pipeline in the place of control tables": ({"name": "_Control"}, "other than those of the lake's own folders"),
    "rows of an epoch": ({"max_rows_per_epoch": 0}, "a number from 1"),
    "severity": ({"contract": (Expect(type="t", arguments={}, severity="bad"),)}, "critical, warning or info"),  # type: ignore[arg-type]  # what is tested
    "expectation": (
        {"contract": (Expect(type="expect_column_max_to_be_betwen", arguments={}),)},
        "got `expect_column_max_to_be_betwen`.\nHint: did you mean `expect_column_max_to_be_between`?",
    ),
    "argument of an expectation": (
        expects("expect_column_max_to_be_between", column="n", max_valu=5),
        "an argument of `expect_column_max_to_be_between`, got `max_valu`.\nHint: did you mean `max_value`?",
    ),
    "severity as an argument": (
        expects("expect_column_to_exist", column="n", severity="info"),
        "got `severity`.\nHint: it takes batch_id, catch_exceptions, column, column_index,",
    ),
    "expectation on no column": (
        expects("expect_column_max_to_be_between", max_value=5),
        "the argument `column` of `expect_column_max_to_be_between`, got none",
    ),
    "expectation on a column of the source": (
        expects("expect_column_max_to_be_between", column="amount"),
        "expected a column of window_start, window_end, carrier, n, got `amount`",
    ),
    "one of many columns": (
        expects("expect_compound_columns_to_be_unique", column_list=["window_start", "carier"]),
        "got `carier`.\nHint: did you mean `carrier`?",
    ),
    "column that is a number": (expects("expect_column_to_exist", column=10**5000), "a value of type `int`"),
    "column that is a list": (expects("expect_column_to_exist", column=["n"]), "a value of type `list`"),
    "columns that are a text": (
        expects("expect_compound_columns_to_be_unique", column_list="n"),
        "`column_list` as a list of columns, got a value of type `str`",
    ),
    "columns that are none": (expects("expect_compound_columns_to_be_unique", column_list=[["n"]]), "of type `list`"),
    "state that a measure does not have": (expects("expect_column_to_exist", column="n__count"), "got `n__count`"),
    "state beside SQL": (
        {"measures": {"a": Avg("amount")}, "batch": Sql("a.sql"), **expects("expect_column_to_exist", column="a__sum")},
        "got `a__sum`",
    ),
    "batch": ({"batch": "same"}, "SameDefinition(), Sql(file) or BatchJob(table=...)"),
    "trigger": ({"trigger": "at watermark"}, "a trigger such as Repeat(AtWatermark())"),
    "changelog into the source": ({"trigger": EachEpoch(), "changelog": "t"}, "other than the source's"),
    "changelog without panes": ({"changelog": "u"}, "a pipeline with a trigger"),
    "accumulation": ({"accumulation": "discarding"}, "one of Accumulation.DISCARDING"),
}


def test_a_contract_may_use_every_column_of_the_result() -> None:
    of_numbers: dict[str, Measure] = {
        "a": Avg("price"),
        "v": Variance("price"),
        "q": Quantile("amount", q=0.5),
        "n": Count(),
    }
    definition = replace(GOOD, measures={**of_numbers, "d": ApproxDistinct("carrier"), "t": TopK("carrier", k=3)})
    columns = batch_schema(definition).names

    assert len(columns) > len(definition.measures) + 5
    for column in columns:
        check_definition(replace(definition, **expects("expect_column_to_exist", column=column)))
    check_definition(replace(definition, **expects("expect_compound_columns_to_be_unique", column_list=tuple(columns))))


@pytest.mark.parametrize("case", BAD)
def test_definition_is_rejected_with_the_field_and_the_expectation(case: str) -> None:
    changes, expected = BAD[case]

    with pytest.raises(DefinitionError) as refused:
        check_definition(replace(GOOD, **changes))

    assert expected in str(refused.value)


def test_valid_definition_is_accepted() -> None:
    check_definition(
        replace(
            GOOD,
            measures={
                "n": Count(),
                "m": Max("at"),
                "a": Avg("amount / price"),
                "s": Stddev("price"),
                "q": Quantile("price", 0.1),
            },
        )
    )


def write(folder: Path, name: str, text: str) -> Settings:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("from cutover.definition import *\n" + text, encoding="utf-8")
    return Settings(pipelines=folder)


PIPELINE = """
{variable} = Pipeline(name="{name}", source=Topic(name="t", schema="at timestamp, k string", event_time="at"),
    key=("k",), window=Fixed(hours=1), measures={{"n": Count()}}, batch={batch})
"""


def text(name: str, variable: str = "p", batch: str = "SameDefinition()") -> str:
    return PIPELINE.format(name=name, variable=variable, batch=batch)


def test_unknown_pipeline_names_the_closest_one(tmp_path: Path) -> None:
    settings = write(tmp_path, "a.py", text("flights"))

    with pytest.raises(DefinitionError, match="did you mean `flights`"):
        catalogue.get(settings, "flihgts")


def test_pipeline_knows_its_file(tmp_path: Path) -> None:
    assert catalogue.get(write(tmp_path, "a.py", text("a")), "a").file == tmp_path / "a.py"


def test_same_name_in_two_files_is_rejected(tmp_path: Path) -> None:
    write(tmp_path, "a.py", text("a"))

    with pytest.raises(DefinitionError, match=r"a\.py defines it, too"):
        catalogue.get(write(tmp_path, "b.py", text("a")), "a")


def test_file_that_raises_is_named(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match=r"a\.py:2: expected a definition that loads, got ZeroDivisionError"):
        catalogue.get(write(tmp_path, "a.py", "1 / 0"), "a")


def test_file_without_a_pipeline_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match="at the top level, got none"):
        catalogue.get(write(tmp_path, "a.py", ""), "a")


def test_missing_sql_file_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(
        DefinitionError, match=r"^a\.py: pipeline `a`: batch: expected a file that exists, got legacy/a\.sql"
    ):
        catalogue.get(write(tmp_path, "a.py", text("a", batch='Sql("legacy/a.sql")')), "a")


def test_sql_outside_of_the_definitions_folder_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "secret.sql").write_text("SELECT 1", encoding="utf-8")

    with pytest.raises(DefinitionError, match="inside the definition's folder"):
        catalogue.get(write(tmp_path / "pipelines", "a.py", text("a", batch='Sql("../secret.sql")')), "a")


def test_the_projects_own_definitions_load() -> None:
    root = Path(__file__).parents[4]

    loaded = catalogue.read_catalogue(Settings(pipelines=root / "pipelines"))

    assert ("flights" in loaded.pipelines, loaded.problems) == (True, ())


def test_check_of_sql_needs_no_file_before_it_is_loaded() -> None:
    check_definition(replace(GOOD, batch=Sql("legacy/p.sql")))


def test_lookups_may_be_chained_and_later_parts_see_their_columns() -> None:
    lookups = {
        "ads": Lookup(table="ads", on={"carrier": "id"}, columns={"campaign": "bigint", "rate": "decimal(4,2)"}),
        "campaigns": Lookup(table="/else/where", on={"campaign": "id"}, columns={"advertiser": "string"}),
    }

    check_definition(
        replace(
            GOOD,
            lookups=lookups,
            where="advertiser IS NOT NULL",
            derive={"paid": "cost * rate"},
            key=("campaign",),
            measures={"n": Count(), "most": Max("rate")},
        )
    )


def test_a_file_that_fails_or_exits_is_reported_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match=r"a\.py:3: expected a definition that loads, got SystemExit: 0"):
        catalogue.get(write(tmp_path, "a.py", "import sys\nsys.exit(0)\n"), "a")


def test_output_of_a_file_is_not_output_of_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    catalogue.get(write(tmp_path, "a.py", text("a") + 'print("said")'), "a")

    assert capsys.readouterr() == ("", "said\n")


def test_all_problems_are_reported_and_only_its_own_for_a_named_file(tmp_path: Path) -> None:
    write(tmp_path, "a.py", "1 / 0")
    settings = write(tmp_path, "b.py", "kye = Sessions()")

    with pytest.raises(DefinitionError, match=r"(?s)a\.py:2: .*b\.py:2: "):
        catalogue.get(settings, "c")
    with pytest.raises(DefinitionError, match=r"^\S*b\.py:2: "):
        catalogue.get(settings, "b")
