import pytest

from cutover.batch.context import writer_lock
from cutover.errors import LakeError
from cutover.settings import Settings


def test_a_second_writer_fails_with_a_message(settings: Settings) -> None:
    with (
        writer_lock(settings, "p"),
        pytest.raises(LakeError, match=r"expected the run that is under way to end within 0\.3 s"),
        writer_lock(settings, "p", patience=0.3),
    ):
        pass


def test_a_writer_without_a_timeout_is_rejected_immediately(settings: Settings) -> None:
    with (
        writer_lock(settings, "p"),
        pytest.raises(LakeError, match="expected no run and no repair under way"),
        writer_lock(settings, "p", patience=0),
    ):
        pass


def test_the_lock_is_free_again_after_a_run(settings: Settings) -> None:
    with writer_lock(settings, "p"):
        pass
    with writer_lock(settings, "p", patience=0):
        pass


def test_pipelines_do_not_wait_for_each_other(settings: Settings) -> None:
    with writer_lock(settings, "p"), writer_lock(settings, "q", patience=0):
        pass
