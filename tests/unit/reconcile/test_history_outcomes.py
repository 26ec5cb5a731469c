"""Outcomes that the history of comparisons counts: only equal tables are consistent."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from cutover.reconcile.cli.history import count_outcomes
from cutover.reconcile.result.finding import Verdict

_OUTCOMES = st.lists(st.tuples(st.sampled_from(Verdict), st.booleans()), min_size=1, max_size=9)


def _count(*outcomes: tuple[Verdict, bool]) -> dict[str, int]:
    text = count_outcomes([{"verdict": verdict.value, "within": within} for verdict, within in outcomes])
    parts = [part.split(" ", 1) for part in text.split(", ")]
    return {words: int(number) for number, words in parts}


def test_an_explained_comparison_is_not_counted_as_equal() -> None:
    assert _count((Verdict.EXPLAINED, False)) == {"explained beyond policy": 1}
    assert _count((Verdict.EXPLAINED, True), (Verdict.CONSISTENT, True)) == {
        "consistent": 1,
        "explained within policy": 1,
    }


@given(_OUTCOMES)
def test_each_comparison_is_counted_once_under_its_own_verdict(outcomes: list[tuple[Verdict, bool]]) -> None:
    counted = _count(*outcomes)
    verdicts = Counter(verdict for verdict, _ in outcomes)

    assert sum(counted.values()) == len(outcomes)
    for verdict, number in verdicts.items():
        word = verdict.value.replace("_", " ").lower()
        assert sum(count for words, count in counted.items() if words.startswith(word)) == number
