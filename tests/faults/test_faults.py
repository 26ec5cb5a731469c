"""Every fault of the catalogue: it happened, what must hold held, the right alert fired."""

from collections.abc import Callable

import pytest

from tests.faults.catalogue import everything
from tests.faults.conftest import LINE, RESULTS, SEED
from tests.faults.fault import Fault
from tests.faults.result import append
from tests.faults.running.prove import prove
from tests.faults.running.rig import Rig


def parameters() -> list[object]:
    """Return the catalogue as parameters; what is not quick is `long`, and runs by `make faults`."""
    return [
        pytest.param(
            fault,
            id=fault.name,
            marks=[pytest.mark.quick if fault.quick else pytest.mark.long, pytest.mark.timeout(fault.timeout_seconds)],
        )
        for fault in everything()
    ]


@pytest.mark.parametrize("fault", parameters())
def test_fault(fault: Fault, rig_of: Callable[[Fault], Rig], record_property: Callable[[str, object], None]) -> None:
    result = prove(fault, rig_of(fault), SEED)
    append(RESULTS, result)
    record_property(LINE, result.line())

    assert (result.outcome, result.why) == ("proven", "")
