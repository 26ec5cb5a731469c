"""A verification for people at a terminal: a row for each check, then what is wrong, then what was left out."""

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table

from cutover.lake.integrity.scrub import Scrubbed
from cutover.reconcile.result.text import message_text
from cutover.reconcile.verify.model import Checked, CheckState, Verification

_WORDS = {
    CheckState.HELD: "[green]holds[/]",
    CheckState.VIOLATED: "[bold red]violated[/]",
    CheckState.NOT_PROVABLE: "[yellow]not provable[/]",
    CheckState.WAIVED: "[yellow]waived[/]",
}
_SENTENCES = {0: "every check holds", 1: "a check is violated", 2: "not every check can be judged"}


def verification(console: Console, found: Verification) -> None:
    """Print it."""
    at = "" if found.epoch is None else f" at epoch {found.epoch:,}, table version {found.table_version:,}"
    console.print(f"[bold]{found.pipeline}[/]{at}: {_SENTENCES[found.exit_code]}")
    if found.error is not None:
        console.print(message_text(found.error), soft_wrap=True)
        _details(console, [check for check in found.checks.values() if check.violations])
    else:
        console.print(_table(found))
        _details(console, found.checks.values())
    if found.runbook:
        console.print(f"runbook  docs/runbooks/{found.runbook}.md")
    console.print(f"{found.seconds:.1f} s", highlight=False)


def print_scrub(console: Console, scrubbed: Scrubbed) -> None:
    """Print what a scrub has looked at."""
    console.print(f"{scrubbed.files:,} of {scrubbed.listed:,} files checked, {scrubbed.size:,} bytes", highlight=False)
    if scrubbed.unnamed:
        console.print(
            f"{scrubbed.unnamed:,} files were written by others: their bytes cannot be checked", highlight=False
        )
    for text in scrubbed.damaged:
        console.print(f"[red]{message_text(text)}[/]", soft_wrap=True, highlight=False)
    if scrubbed.damaged:
        console.print("runbook  docs/runbooks/TableUnreadable.md")
    elif not scrubbed.is_whole:
        console.print("the next run goes on from here", highlight=False)


def _table(verification: Verification) -> Table:
    table = Table("check", "", "", "looked at", box=None, pad_edge=False)
    table.add_column("s", justify="right")
    for check in verification.checks.values():
        table.add_row(
            check.name, check.title, _WORDS[check.state], message_text(check.looked_at), f"{check.seconds:.1f}"
        )
    return table


def _details(console: Console, checks: Iterable[Checked]) -> None:
    for check in checks:
        for line in _lines(check):
            console.print(f"{check.name}  {line}", soft_wrap=True, highlight=False)


def _lines(one: Checked) -> list[str]:
    lines = [f"[red]{message_text(violation.text)}[/]" for violation in one.violations]
    if one.why:
        lines.append(f"[yellow]{message_text(one.why)}[/]")
    return lines + [f"[dim]{message_text(note)}[/]" for note in one.notes]
