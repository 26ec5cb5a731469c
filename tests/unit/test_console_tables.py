"""Tables in a terminal of any width: heads are broken between words."""

import io

from hypothesis import example, given
from hypothesis import strategies as st
from rich.console import Console

from cutover.output.console import fit_columns, make_table

_WORDS = st.lists(st.text("abcdefg-", min_size=1, max_size=17), min_size=1, max_size=4).map(" ".join)
_TABLES = st.integers(1, 9).flatmap(
    lambda count: st.tuples(
        st.lists(_WORDS, min_size=count, max_size=count),
        st.lists(st.lists(_WORDS, min_size=count, max_size=count), max_size=3),
    )
)


def _print(heads: list[str], rows: list[list[str]], width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    table = make_table(heads, rows)
    fit_columns(table, width)
    console.print(table)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


@given(_TABLES, st.integers(20, 200))
@example((["out-of-orderness", *["exact in the end"] * 8], [["0 s", *["99.17 %"] * 8]]), 120)
def test_a_head_is_broken_only_between_words(table: tuple[list[str], list[list[str]]], width: int) -> None:
    heads, rows = table
    lines = _print(heads, rows, width)
    room = sum(max(map(len, head.split())) + 2 for head in heads)

    assert all(len(line.rstrip()) <= width for line in lines)
    if room <= width:
        words = [word for line in lines for word in line.split()]
        assert all(words.count(word) >= head.split().count(word) for head in heads for word in head.split())


def test_heads_wrap_before_cells() -> None:
    lines = _print(["late records", "exact in the end"], [["13 min 10 s", "99 %"]], 30)

    assert "13 min 10 s" in lines[-1]
