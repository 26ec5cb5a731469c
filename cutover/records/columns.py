"""Spark's own `selectExpr` and `agg`, for texts that come again in every epoch.

What makes a small query slow to define is not the texts: each is a question of its own to the JVM, and so is each call
by which Python puts them into one of its lists. So a list that was made once is kept there and used again: the queries
of an epoch are defined by 30 questions instead of 500, in 70 ms instead of 120 (`make bench ONLY=epoch`).
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Observation

_CACHED_LISTS = 256
"""Lists; those with a watermark in them are of one epoch alone."""


def select(frame: "DataFrame", *texts: str) -> "DataFrame":
    """Return what `frame.selectExpr(*texts)` does."""
    return _make_frame(frame, _java(frame).selectExpr(_make_seq(_jvm(frame), texts)))


def aggregate(frame: "DataFrame", by: Sequence[str], texts: Sequence[str]) -> "DataFrame":
    """Return a row for each group by some columns: those, then the aggregates.

    Args:
        frame: Any rows.
        by: Names of its columns; none: one group of everything.
        texts: Spark SQL of aggregates, each with its name (`sum(v) AS total`); at least one.
    """
    jvm = _jvm(frame)
    columns, grouped = _columns(jvm, tuple(texts)), _java(frame).groupBy(_columns(jvm, tuple(by)))
    return _make_frame(frame, grouped.agg(columns.head(), columns.tail()))


def observe(frame: "DataFrame", observation: "Observation", texts: Sequence[str]) -> "DataFrame":
    """Let an observation see aggregates of the rows that pass by: Spark SQL, each with its name; at least one."""
    return frame.observe(observation, *_parse_columns(_jvm(frame), tuple(texts)))


def _java(frame: "DataFrame") -> Any:
    return frame._jdf  # noqa: SLF001 -- no public way leads past its lists


def _jvm(frame: "DataFrame") -> Any:
    return frame.sparkSession._jvm  # noqa: SLF001 -- as above


def _make_frame(frame: "DataFrame", java: Any) -> "DataFrame":
    from pyspark.sql.classic.dataframe import DataFrame  # noqa: PLC0415 -- as above

    return DataFrame(java, frame.sparkSession)


@lru_cache(maxsize=_CACHED_LISTS)
def _make_seq(jvm: Any, texts: tuple[str, ...]) -> Any:
    return jvm.PythonUtils.toSeq(list(texts))


@lru_cache(maxsize=_CACHED_LISTS)
def _columns(jvm: Any, texts: tuple[str, ...]) -> Any:
    return jvm.PythonUtils.toSeq([column._jc for column in _parse_columns(jvm, texts)])  # noqa: SLF001 -- as above


@lru_cache(maxsize=_CACHED_LISTS)
def _parse_columns(_jvm: Any, texts: tuple[str, ...]) -> "tuple[Column, ...]":
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 -- Spark's own name; commands without it pay nothing

    return tuple(F.expr(text) for text in texts)
