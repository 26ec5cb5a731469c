"""Compiled definitions: equal definitions share their compiled parts, different ones share nothing."""

from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest

from cutover.definition import Sum
from cutover.definition.compile import compiled
from cutover.definition.compile.compiled import compile_pipeline
from cutover.definition.expressions.compiler import compile_expression
from cutover.errors import DefinitionError
from tests.support.rows.joined import ONE, TWO

PLAIN = replace(TWO, join=None, measures={"s": Sum("v")})


def test_each_expression_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    spy = Mock(wraps=compile_expression)
    monkeypatch.setattr(compiled, "compile_expression", spy)
    compiled_pipeline = compile_pipeline(
        replace(PLAIN, where="v > 0", derive={"w": "v + 1"}, measures={"s": Sum("w * 2")})
    )

    properties = [
        (
            compiled_pipeline.states,
            compiled_pipeline.row_failed,
            compiled_pipeline.passes,
            compiled_pipeline.result_types,
            compiled_pipeline.column_types,
            compiled_pipeline.finishes,
        )
        for _ in range(2)
    ]

    assert properties[0] == properties[1]
    assert sorted(call.kwargs["of"] for call in spy.call_args_list) == ["derive.w", "measures.s", "where"]


def test_equal_definitions_share_one() -> None:
    assert compile_pipeline(replace(TWO, file=Path("here.py"))) is compile_pipeline(replace(TWO, file=Path("there.py")))


def test_another_measure_is_another_definition() -> None:
    original, other = (compile_pipeline(replace(PLAIN, measures={"s": Sum(text)})) for text in ("v", "v + 1"))

    assert original.states != other.states


def test_a_definition_that_does_not_compile_is_rejected_each_time() -> None:
    compiled_pipeline = compile_pipeline(replace(PLAIN, where="nowhere > 1"))

    for _ in range(2):
        with pytest.raises(DefinitionError, match="unknown column `nowhere`"):
            _ = compiled_pipeline.where


def test_sides_of_a_join_show_their_columns_under_the_prefix() -> None:
    left_side, right_side = compile_pipeline(TWO).sides

    assert {*left_side.types} <= {*compile_pipeline(TWO).own_types}
    assert all(column.startswith(str(TWO.join and TWO.join.prefix)) for column in right_side.types)


def test_a_self_join_reads_both_sides_from_one_record() -> None:
    _, right = compile_pipeline(ONE).sides

    assert {source.strip("`") for source in right.sources.values()} <= {*compile_pipeline(ONE).own_types}
