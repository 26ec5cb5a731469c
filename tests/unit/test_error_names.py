"""Messages of errors name the pipeline that the command was called with."""

import pytest

from cutover.errors import CutoverError, DefinitionError, LogError
from cutover.output.console import Output, wrap_command

MESSAGE = "Topic `t`: expected P.\nHint: `cutover produce FILE --pipeline P` creates it, `cutover watch P` shows it."


@pytest.mark.parametrize("error_type", [DefinitionError, LogError])
def test_a_command_in_an_error_has_the_name_of_the_pipeline(error_type: type[CutoverError]) -> None:
    def fail(pipeline: str) -> Output:  # noqa: ARG001 -- by its name
        raise error_type(MESSAGE, runbook="KafkaRefused")

    with pytest.raises(error_type) as raised:
        wrap_command(fail)(pipeline="sales")

    text = str(raised.value)
    assert "`cutover produce FILE --pipeline sales`" in text
    assert "`cutover watch sales`" in text
    assert text.startswith("Topic `t`: expected P.")  # only commands have placeholders
    assert text.endswith("KafkaRefused.md")
    assert raised.value.text in text


def test_an_error_of_a_command_without_a_pipeline_keeps_its_placeholder() -> None:
    def fail(pipeline: str | None) -> Output:  # noqa: ARG001 -- by its name
        raise DefinitionError(MESSAGE)

    with pytest.raises(DefinitionError, match="--pipeline P"):
        wrap_command(fail)(pipeline=None)
