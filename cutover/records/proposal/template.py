"""Template of the file that `cutover init` writes: a valid definition with a comment on every choice."""

import json
from collections.abc import Sequence

from cutover.counts import count_noun
from cutover.definition.checks.definition import KEYWORDS
from cutover.definition.windows.kinds import KINDS
from cutover.output.cells import visible
from cutover.records.proposal.guess import Guess

LONGEST_COMMENT = 160
"""Maximum characters of a text from a file in a comment."""

HEAD = '''"""{name}: one sentence on what a window holds.

Written by `cutover init` from {basis} of {origin}.
Every choice is a guess: read it, correct it, delete the comments. `cutover lint {name}` checks it.
"""

from cutover.definition import {imports}

pipeline = Pipeline(
    name="{name}",
    source=Topic(
        name={topic},
        # Type of each field. Allowed: boolean, int, bigint, double, decimal(p,s), string, timestamp, date; add NOT NULL
        # where a record without it is malformed. A value of another JSON type is malformed: nothing is cast.
{renamed}{left_out}{unread_times}{notes}{malformed}{keywords}        schema="""
{schema}
        """,
        # When it happened: records are assigned to windows by it.
        event_time="{event_time}",
{log_time}
        # How the JSON writes timestamps: iso, a pattern such as dd.MM.yyyy HH:mm, or seconds, millis, micros or nanos
        # since 1970. A time without a zone is in UTC.
        time_format="{time_format}",
{parse}{fields}    ),
    # Records for which this is not true are ignored, such as where="{key} IS NOT NULL".
    where={where},
    # Further columns: Spark SQL from a whitelist, such as derive={{"big": "CASE WHEN ... THEN 1 ELSE 0 END"}}.
    derive={derive},
    # One result for each window and each value of these columns; a null is a value.
{one_series}    key=("{key}",),
    # One of {windows}.
{window_seen}    window=Fixed({window}),
    # Count(), Sum(x), Min(x), Max(x), Avg(x), Quantile(x, 0.9), ... (docs/definition-reference.md); x: an expression.
    measures={{
{measures}
    }},
    lateness=Lateness(
{pace_seen}        # How far records are usually out of order: the watermark stays this far behind the newest.
        out_of_orderness="{out_of_orderness}",
        # How long after that a window still accepts records in the streaming path; later ones are `late`.
        allowed="{allowed}",
        # A partition without records for this long does not hold the watermark back.
        idle_after="1 minute",
        # An event dated further than this after its log timestamp is `future` and does not count.
        max_ahead="{max_ahead}",
    ),
    # The trusted path computes the same definition. A team's own batch job: Sql("legacy/{name}.sql").
    batch=SameDefinition(),
    # What the batch result must fulfil before it is published.
    contract=(
        Expect(type="expect_column_values_to_be_between", arguments={{"column": "{events}", "min_value": 1}}),
    ),
    # How much difference is acceptable, and how many runs in a row prove it.
    policy=Policy(max_late_share=1e-3, max_unexplained=0, runs=24),
    # Records of one epoch (one commit of the streaming path): small ones follow faster, large ones cost less.
    max_rows_per_epoch={epoch_rows},
    schedule="@hourly",
)
'''


def render_definition(name: str, topic: str, origin: str, guess: Guess, *, is_topic: bool = False) -> str:
    """Render the file of a definition; `guess` must have an event time.

    Args:
        name: Name of the pipeline.
        topic: Name of its topic.
        origin: Source of the records: name of a file, or a topic.
        guess: Draft of the definition.
        is_topic: The records are the newest ones of a topic, not all records of a file.
    """
    key = guess.key or _name_series(guess)
    imports = ["Count", "Expect", "Fixed", "Lateness", "Pipeline", "Policy", "SameDefinition", "Topic"]
    if guess.fields:
        imports = sorted([*imports, "JsonField"])
    if guess.amount:
        imports = sorted([*imports, "Max", "Sum" if guess.adds_up else "Avg"])
    return HEAD.format(
        name=name,
        basis=_describe_basis(guess, is_topic=is_topic),
        origin=_escape_docstring(origin),
        imports=", ".join(imports),
        topic=json.dumps(topic),
        left_out=_describe_omitted(guess),
        schema=",\n".join(f"            {item}" for item in guess.schema),
        renamed=_describe_renamed(guess),
        notes=_describe_notes(guess),
        event_time=guess.event_time,
        log_time=_log_time(guess),
        time_format=guess.time_format,
        parse=_parse_form(guess),
        fields=_format_fields(guess),
        where=json.dumps(guess.where) if guess.where else None,
        key=key,
        derive="{}" if guess.key else f'{{"{key}": "\'all\'"}}',
        one_series="" if guess.key else "    # No column groups the records: they are one series.\n",
        unread_times=_describe_unread_times(guess),
        malformed=_describe_malformed(guess),
        measures=_measures(guess, key),
        events=_name_measure(key, "events"),
        keywords=_keywords(guess),
        window=guess.pace.window,
        windows=", ".join(kind.example for kind in KINDS),
        window_seen=_format_evidence(4, guess.pace.window_evidence),
        pace_seen=_format_evidence(8, guess.pace.lateness_evidence),
        out_of_orderness=guess.pace.out_of_orderness,
        allowed=guess.pace.allowed,
        max_ahead=guess.pace.max_ahead,
        epoch_rows=f"{guess.pace.epoch_rows:_}",
    )


def _escape_comment(text: str) -> str:
    """Escape unprintable characters, so that a text fits on one line of a comment."""
    escaped = visible(text)
    return escaped if len(escaped) <= LONGEST_COMMENT else f"{escaped[:LONGEST_COMMENT]}..."


def _escape_docstring(text: str) -> str:
    """Escape a text for one line of a docstring: it neither ends the docstring nor starts an escape sequence."""
    return _escape_comment(text).replace("\\", "\\\\").replace('"', '\\"')


def _describe_basis(guess: Guess, *, is_topic: bool) -> str:
    """Describe the records from which the choices were inferred."""
    records = count_noun(guess.rows, "record")
    return f"the newest {records}" if is_topic else f"all {records}"


def _format_evidence(indent: int, lines: Sequence[str]) -> str:
    return "".join(f"{' ' * indent}# Seen: {line}.\n" for line in lines)


def _keywords(guess: Guess) -> str:
    """Explain how to use columns whose names are keywords of SQL."""
    keyword_columns = [column.name for column in guess.columns if column.name.lower() in KEYWORDS]
    return "".join(
        f"        # `{name}` is a keyword of SQL: quote it with backticks in expressions; a key needs another name:\n"
        f'        # derive={{"{name}_": "`{name}`"}}, key=("{name}_",).\n'
        for name in keyword_columns
    )


def _log_time(guess: Guess) -> str:
    if guess.log_time is None:
        comment = "No column says when a record reached the log: `produce` sends in the file's order, dated now."
        return f"        # {comment}\n        log_time=None,"
    if guess.log_time == guess.event_time:
        comment = "The order of the file is not one of arrival: `produce` sends in the order of this time."
        return f'        # {comment}\n        log_time="{guess.log_time}",'
    comment = "When the record reached the log: `produce` orders by it and dates messages with it."
    return f'        # {comment}\n        log_time="{guess.log_time}",'


def _parse_form(guess: Guess) -> str:
    """Explain which columns only `from_json` reads; the strict form, the default, is not written."""
    columns = [column for column in guess.columns if column.needs_from_json]
    if not columns:
        return ""
    examples = ", ".join(f"`{column.name}` ({_escape_comment(column.example)})" for column in columns[:3])
    comment = f"        # As jobs read values: the strict form would reject {examples} as {columns[0].type}.\n"
    return f'{comment}        parse="from_json",\n'


def _format_fields(guess: Guess) -> str:
    """Write the places of fields whose names are no names of columns."""
    if not guess.fields:
        return ""
    places = "".join(
        f"            {json.dumps(name)}: JsonField(path={json.dumps(field.path)}),\n"
        for name, field in guess.fields.items()
    )
    comment = "        # Fields of the JSON that have another place or name than the column.\n"
    return f"{comment}        fields={{\n{places}        }},\n"


def _measures(guess: Guess, key: str) -> str:
    lines = [f'        "{_name_measure(key, "events")}": Count(),']
    if guess.amount:
        main_measure = ("total", "Sum") if guess.adds_up else ("average", "Avg")
        lines.append(f'        "{_name_measure(key, main_measure[0])}": {main_measure[1]}("`{guess.amount}`"),')
        lines.append(f'        "{_name_measure(key, "largest")}": Max("`{guess.amount}`"),')
    return "\n".join(lines)


def _name_measure(key: str, name: str) -> str:
    """Return a name for a measure that differs from the key's."""
    return f"{name}_" if name == key.lower() else name


def _name_series(guess: Guess) -> str:
    """Return a name for the constant key that no column has."""
    used_names = {column.name.lower() for column in guess.columns}
    name = "series"
    while name in used_names:
        name += "_"
    return name


def _describe_omitted(guess: Guess) -> str:
    omitted = guess.omitted.items()
    return "".join(f"        # Left out: {_escape_comment(name)} ({reason}).\n" for name, reason in omitted)


def _describe_renamed(guess: Guess) -> str:
    """Describe columns of CSV whose header is no name of a field: `produce` renames them in the same way."""
    return "".join(
        f"        # `{name}` is the column `{_escape_comment(text)}` of the file.\n"
        for name, text in guess.renamed.items()
        if any(column.name == name for column in guess.columns)
    )


def _describe_notes(guess: Guess) -> str:
    return "".join(
        f"        # `{column.name}`: {_escape_comment(note)}.\n" for column in guess.columns for note in column.notes
    )


def _describe_unread_times(guess: Guess) -> str:
    unread = [column for column in guess.columns if column.time_form and column.type != "timestamp"]
    return "".join(
        f"        # `{column.name}` looks like a time that no timestamp takes "
        f"({_escape_comment(column.time_form or '')}): {column.type}.\n"
        for column in unread
    )


def _describe_malformed(guess: Guess) -> str:
    undated = next((column.nulls for column in guess.columns if column.name == guess.event_time), 0)
    reasons = (
        (guess.malformed, "malformed whatever the schema says (NaN, or beyond the limits)"),
        (undated, f"malformed because `{guess.event_time}` is missing"),
    )
    total = guess.rows + guess.malformed
    records = "record" if total == 1 else "records"
    return "".join(
        f"        # {count:,} of {total:,} {records} {'is' if count == 1 else 'are'} {reason}.\n"
        for count, reason in reasons
        if count
    )
