"""Rendering of a verification at a terminal: a row for each check, then violations, then omissions."""

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table

from cutover.lake.integrity.scrub import Scrubbed
from cutover.reconcile.result.text import message_text
from cutover.reconcile.verify.model import CheckResult, CheckState, Verification

_WORDS = {
    CheckState.HELD: "[green]holds[/]",
    CheckState.VIOLATED: "[bold red]violated[/]",
    CheckState.NOT_PROVABLE: "[yellow]not provable[/]",
    CheckState.WAIVED: "[yellow]waived[/]",
}
_SENTENCES = {0: "every check holds", 1: "a check is violated", 2: "not every check could be evaluated"}


def print_verification(console: Console, verification: Verification) -> None:
    """Print a verification."""
    at = (
        ""
        if verification.epoch is None
        else f" at epoch {verification.epoch:,}, table version {verification.table_version:,}"
    )
    console.print(f"[bold]{verification.pipeline}[/]{at}: {_SENTENCES[verification.exit_code]}")
    if verification.error is not None:
        console.print(message_text(verification.error), soft_wrap=True)
        _print_details(console, [check for check in verification.checks.values() if check.violations])
    else:
        console.print(_build_table(verification))
        _print_details(console, verification.checks.values())
    if verification.runbook:
        console.print(f"runbook  docs/runbooks/{verification.runbook}.md")
    console.print(f"{verification.seconds:.1f} s", highlight=False)


def print_scrub(console: Console, scrubbed: Scrubbed) -> None:
    """Print the result of a scrub."""
    console.print(f"{scrubbed.files:,} of {scrubbed.listed:,} files checked, {scrubbed.size:,} bytes", highlight=False)
    if scrubbed.unnamed:
        console.print(
            f"{scrubbed.unnamed:,} files were written by other writers: their bytes cannot be checked", highlight=False
        )
    for text in scrubbed.damaged:
        console.print(f"[red]{message_text(text)}[/]", soft_wrap=True, highlight=False)
    if scrubbed.damaged:
        console.print("runbook  docs/runbooks/TableUnreadable.md")
    elif not scrubbed.is_whole:
        console.print("the next run continues from here", highlight=False)


def _build_table(verification: Verification) -> Table:
    table = Table("check", "", "", "coverage", box=None, pad_edge=False)
    table.add_column("s", justify="right")
    for check in verification.checks.values():
        table.add_row(
            check.name, check.title, _WORDS[check.state], message_text(check.coverage), f"{check.seconds:.1f}"
        )
    return table


def _print_details(console: Console, checks: Iterable[CheckResult]) -> None:
    for check in checks:
        for line in _format_lines(check):
            console.print(f"{check.name}  {line}", soft_wrap=True, highlight=False)


def _format_lines(result: CheckResult) -> list[str]:
    lines = [f"[red]{message_text(violation.text)}[/]" for violation in result.violations]
    if result.reason:
        lines.append(f"[yellow]{message_text(result.reason)}[/]")
    return lines + [f"[dim]{message_text(note)}[/]" for note in result.notes]
