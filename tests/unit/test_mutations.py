"""What the tool that breaks lines of the kernel draws."""

from tests.mutations import draw, find_code, list_mutations, list_near

SOURCE = '''"""Not < this, nor 1."""
from a import b

LIMIT = 0  # not 1 < 2


def closed(end: int) -> bool:
    """At most 0."""
    return (
        end <= LIMIT
    )
TEXT = f("a < b")
'''


def test_code_is_no_docstring_no_import_no_head_and_no_comment() -> None:
    code = {number: line.rstrip() for number, line in find_code(SOURCE).items()}

    assert code == {4: "LIMIT = 0", 9: "    return (", 10: "        end <= LIMIT", 11: "    )", 12: "TEXT = f(       )"}


def test_each_mutation_changes_one_place_of_one_line() -> None:
    changed = {(found.line, found.after.strip()) for found in list_mutations("a.py", SOURCE)}

    assert changed == {(4, "LIMIT = 1  # not 1 < 2"), (10, "end < LIMIT")}


def test_a_seed_draws_the_same_lines_again_and_none_twice() -> None:
    drawn = draw(seed=7, count=40)

    assert drawn == draw(seed=7, count=40)
    assert len({(found.file, found.line) for found in drawn}) == 40
    assert drawn != draw(seed=8, count=40)


def test_tests_of_the_lines_own_room_run_first() -> None:
    assert list_near("reconcile/gate/stages.py") == [
        ["tests/unit/reconcile", "tests/unit/gate"],
        ["tests/integration/reconcile", "tests/integration/gate", "-n2"],
    ]
    assert list_near("elsewhere.py") == []
