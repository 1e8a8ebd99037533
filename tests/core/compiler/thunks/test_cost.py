"""How long thunks take, by their estimates."""

from __future__ import annotations

import pytest
from tripont.core.compiler.formats.artifact import Conditional, LibraryCall, Thunk
from tripont.core.compiler.targets.host import for_cpu
from tripont.core.compiler.thunks import cost
from tripont.core.schema.artifact import Slice


def call(nanoseconds: float) -> Thunk:
    return LibraryCall("gemm", (), (), {}, nanoseconds)


@pytest.mark.parametrize(("usual", "expected"), [(-1, 70.0), (0, 20.0), (1, 70.0)])
def test_the_usual_branch_of_a_conditional_counts(usual: int, expected: float) -> None:
    thunk = Conditional(Slice(0, 0, 1), True, ((call(20.0),), (call(30.0), call(40.0))), usual)
    assert cost.of_thunks([call(5.0), thunk], for_cpu().costs.thunks) == 5.0 + expected
