"""Renamed commands and removed options are found without running anything."""

import pytest

from cutover.infra.drills.perform import check_line


@pytest.mark.parametrize(
    "line",
    [
        "cutover watch flights --once",
        'cutover sql flights "SELECT max(epoch) FROM epochs"',
        'cutover gate flights rollback --why "late burst"',
        "cutover repair flights --window <start>",
        "cutover init probe --from flights",
    ],
)
def test_existing_command_is_valid(line: str) -> None:
    assert check_line(line) is None


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("cutover observe flights", "no command `observe`"),
        ("cutover watch flights --twice", "no option --twice"),
        ("cutover batch flights --anew --fast=yes", "no option --fast"),
        ("cutover gate flights sideways", "`gate` needs one of "),
        ('cutover sql flights "SELECT', "No closing quotation"),
    ],
)
def test_outdated_command_is_named(line: str, problem: str) -> None:
    assert (check_line(line) or "").startswith(problem)
