"""Text of a verification: a row for each check, then violations, then omissions."""

from collections.abc import Iterable, Iterator

from rich.table import Table

from cutover.lake.integrity.scrub import Scrubbed
from cutover.output.console import Line, make_table, styled
from cutover.reconcile.verify.model import CheckResult, CheckState, Verification

_WORDS = {
    CheckState.HELD: ("holds", "green"),
    CheckState.VIOLATED: ("violated", "bold red"),
    CheckState.NOT_PROVABLE: ("not provable", "yellow"),
    CheckState.WAIVED: ("waived", "yellow"),
}
_SENTENCES = {0: "every check holds", 1: "a check is violated", 2: "not every check could be evaluated"}


def list_verification_lines(verification: Verification) -> Iterator[Line]:
    """Yield a verification: its result, the checks, and the details of those that do not hold."""
    at = (
        ""
        if verification.epoch is None
        else f" at epoch {verification.epoch:,}, table version {verification.table_version:,}"
    )
    yield styled((verification.pipeline, "bold"), f"{at}: {_SENTENCES[verification.exit_code]}")
    if verification.error is not None:
        yield verification.error
        yield from _list_details(check for check in verification.checks.values() if check.violations)
    else:
        yield _tabulate_checks(verification)
        yield from _list_details(verification.checks.values())
    if verification.runbook:
        yield f"runbook  docs/runbooks/{verification.runbook}.md"
    yield f"{verification.seconds:.1f} s"


def list_scrub_lines(scrubbed: Scrubbed) -> Iterator[Line]:
    """Yield the result of a scrub: how much was checked, and the damaged files."""
    yield f"{scrubbed.files:,} of {scrubbed.listed:,} files checked, {scrubbed.size:,} bytes"
    if scrubbed.unnamed:
        yield f"{scrubbed.unnamed:,} files were written by other writers: their bytes cannot be checked"
    for text in scrubbed.damaged:
        yield styled((text, "red"))
    if scrubbed.damaged:
        yield "runbook  docs/runbooks/TableUnreadable.md"
    elif not scrubbed.is_whole:
        yield "the next run continues from here"


def _tabulate_checks(verification: Verification) -> Table:
    return make_table(
        ("check", "", "", "coverage", "s"),
        (
            (check.name, check.title, styled(_WORDS[check.state]), check.coverage, f"{check.seconds:.1f}")
            for check in verification.checks.values()
        ),
        right=("s",),
    )


def _list_details(checks: Iterable[CheckResult]) -> Iterator[Line]:
    for check in checks:
        for violation in check.violations:
            yield styled(f"{check.name}  ", (violation.text, "red"))
        if check.reason:
            yield styled(f"{check.name}  ", (check.reason, "yellow"))
        for note in check.notes:
            yield styled(f"{check.name}  ", (note, "dim"))
