"""Checks of a change note: against its own definition, and against the definition that it replaces."""

from typing import get_args

from cutover.definition.checks.measures import reject_field
from cutover.definition.compile.compiled import compile_pipeline
from cutover.definition.compile.fingerprint import lateness_fingerprint
from cutover.definition.expressions.compiler import Expression, compile_expression
from cutover.definition.model.pipeline import Change, ClassChange, Pipeline, RowChange, make_right_side
from cutover.definition.model.topic import check_name
from cutover.errors import DefinitionError

_MAX_REASON_LENGTH = 500


def check_change_note(pipeline: Pipeline) -> None:
    """Reject a change note that does not match its own definition.

    Raises:
        DefinitionError: Names the field, the expected and the actual value.
    """
    note = pipeline.change
    if note is None:
        return
    if not isinstance(note, Change):
        reject_field("change", "Change(...) or None", repr(note)[:80])
    check_name(note.of, of="change.of")
    if note.of == pipeline.name:
        reject_field("change.of", "another pipeline", f"`{note.of}`", "the old definition keeps its name and file")
    if not isinstance(note.why, str) or not 1 <= len(note.why.strip()) <= _MAX_REASON_LENGTH:
        reject_field("change.why", f"a reason of 1 to {_MAX_REASON_LENGTH} characters", repr(note.why)[:80])
    _check_declared_measures(pipeline, note)
    for field, kinds, known_names in (
        ("rows", note.rows, get_args(RowChange)),
        ("classes", note.classes, get_args(ClassChange)),
    ):
        if not isinstance(kinds, tuple) or set(kinds) - set(known_names):
            reject_field(f"change.{field}", f"a tuple of any of {', '.join(known_names)}", repr(kinds)[:80])
    if note.within is not None and not (note.changed or note.rows):
        reject_field(
            "change.within", "`changed` measures or `rows` with it", "none", "it limits where these may differ"
        )
    compile_within(pipeline)


def _check_declared_measures(pipeline: Pipeline, note: Change) -> None:
    for field, names in (("added", note.added), ("changed", note.changed), ("removed", note.removed)):
        if not isinstance(names, tuple):
            reject_field(f"change.{field}", "a tuple of measures", repr(names)[:80], 'write ("clicks",)')
    for field, names in (("added", note.added), ("changed", note.changed)):
        for name in names:
            if name not in pipeline.measures:
                reject_field(
                    f"change.{field}", f"a measure of this definition ({', '.join(pipeline.measures)})", f"`{name}`"
                )
    for name in note.removed:
        if name in pipeline.measures:
            reject_field("change.removed", "a measure that this definition no longer has", f"`{name}`")
    if both := set(note.added) & set(note.changed):
        reject_field("change", "measures that are either added or changed", f"`{min(both)}` as both")


def compile_within(pipeline: Pipeline) -> Expression | None:
    """Compile the condition of a note's `within`; None without one.

    Raises:
        DefinitionError: The text is not a condition over the key, `window_start` and `window_end`.
    """
    if pipeline.change is None or pipeline.change.within is None:
        return None
    types = {**compile_pipeline(pipeline).key_types, "window_start": "timestamp", "window_end": "timestamp"}
    expression = compile_expression(pipeline.change.within, types, of="change.within")
    if expression.type != "boolean":
        reject_field("change.within", "a condition", f"{expression.type}: `{expression.text}`")
    return expression


def check_pair(new: Pipeline, old: Pipeline) -> None:
    """Reject a change note under which the rows of two definitions cannot be compared.

    Raises:
        DefinitionError: The two read different topics, have different windows or keys, or differ beyond the note.
    """
    note = new.change
    if note is None or note.of != old.name:
        msg = f'Pipeline `{new.name}`: expected `change=Change(of="{old.name}", ...)`, got '
        raise DefinitionError(msg + ("none." if note is None else f"one of `{note.of}`."))
    _reject_incomparable_rows(new, old)
    _reject_shared(new, old)
    if not note.lateness and lateness_fingerprint(new) != lateness_fingerprint(old):
        _reject_field(
            new, "change.lateness", f"True, since windows close at another time than in `{old.name}`", "False"
        )
    for field, declared, actual in (
        ("added", note.added, [name for name in new.measures if name not in old.measures]),
        ("removed", note.removed, [name for name in old.measures if name not in new.measures]),
    ):
        if set(declared) != set(actual):
            _reject_field(new, f"change.{field}", ", ".join(actual) or "none", ", ".join(declared) or "none")
    result_types = [compile_pipeline(pipeline).result_types for pipeline in (new, old)]
    for name in new.measures:
        if name in old.measures and name not in note.changed and result_types[0][name] != result_types[1][name]:
            _reject_field(
                new,
                "change.changed",
                f"`{name}`, which was {result_types[1][name]}",
                f"{result_types[0][name]} undeclared",
            )


def _reject_shared(new: Pipeline, old: Pipeline) -> None:
    """Reject two pipelines that write the same changelog, or that replace each other."""
    if new.changelog is not None and new.changelog == old.changelog:
        hint = "both would write it, and readers could not separate their rows"
        _reject_field(new, "changelog", f"another topic than that of `{old.name}`", new.changelog, hint)
    if old.change is not None and old.change.of == new.name:
        _reject_field(new, "change.of", f"one of the two to replace the other, `{old.name}` names `{new.name}`", "both")


def _reject_incomparable_rows(new: Pipeline, old: Pipeline) -> None:
    """Reject definitions whose rows have different topics, windows or keys."""
    hint = f"rows cannot be compared with those of `{old.name}`; compare `{new.name}` with its own batch path instead"
    topics = [sorted({pipeline.source.name, make_right_side(pipeline).source.name}) for pipeline in (new, old)]
    if topics[0] != topics[1]:
        _reject_field(new, "source", f"the topics of `{old.name}` ({', '.join(topics[1])})", ", ".join(topics[0]), hint)
    if new.window.describe() != old.window.describe():
        _reject_field(new, "window", f"that of `{old.name}` ({old.window})", str(new.window), hint)
    keys = [dict(compile_pipeline(pipeline).key_types) for pipeline in (new, old)]
    if keys[0] != keys[1]:
        _reject_field(new, "key", f"that of `{old.name}` ({', '.join(old.key)})", ", ".join(new.key), hint)


def _reject_field(pipeline: Pipeline, field: str, expected: str, actual: str, hint: str = "") -> None:
    msg = f"Pipeline `{pipeline.name}`: {field}: expected {expected}, got {actual}."
    raise DefinitionError(msg + (f"\nHint: {hint}." if hint else ""))
