"""Conditionals whose branch is known at compile time are the branch's instructions."""

from __future__ import annotations

import numpy as np
import pytest
from tripont.core.compiler.ir import dtypes, hlo
from tripont.core.compiler.ir.hlo import Computation, Instruction
from tripont.core.compiler.passes.known_branches import take_known_branches
from tripont.core.compiler.reference.evaluate import evaluate

from tests.core.compiler.builders import module, number, op, opcodes, parameter

BRANCHES = ("negate", "exponential", "abs")
X = np.array([1.0, -2.0, 3.0], np.float32)


def branch(opcode: str) -> Computation:
    x = parameter(0, 3)
    return Computation.from_root(opcode, [x], op(opcode, x))


@pytest.mark.parametrize(
    ("selector", "taken"), [(-1, 2), (0, 0), (1, 1), (2, 2), (3, 2), (True, 0), (False, 1)], ids=str
)
def test_constant_selector(selector: int | bool, taken: int) -> None:
    is_pred = isinstance(selector, bool)
    branches = [branch(opcode) for opcode in BRANCHES[: 2 if is_pred else 3]]
    x = parameter(0, 3)
    operands = [op("multiply", x, number(2.0 + n, 3)) for n in range(len(branches))]
    which = number(selector, dtype=dtypes.PRED if is_pred else dtypes.S32)
    counts = {"operand_counts": (1,) * len(branches)}
    before = module([x], Instruction("conditional", x.shape, (which, *operands), counts, branches))
    after = take_known_branches(before)
    found = opcodes(after.entry)
    assert "conditional" not in found
    assert [o for o in found if o in BRANCHES] == [BRANCHES[taken]]
    np.testing.assert_array_equal(evaluate(after, [X])[0], evaluate(before, [X])[0])


def test_only_branch() -> None:
    """Whatever its selector is; of several results each user has its own."""
    which, x = parameter(0, dtype=dtypes.S32), parameter(1, 3)
    y = parameter(0, 3)
    root = Instruction("tuple", hlo.TupleShape((y.shape, y.shape)), (op("negate", y), op("abs", y)))
    both = Computation.from_root("both", [y], root)
    attributes = {"operand_counts": (1,)}
    value = Instruction("conditional", root.shape, (which, x), attributes, (both,))
    second = Instruction("get-tuple-element", x.shape, (value,), {"index": 1})
    before = module([which, x], second)
    after = take_known_branches(before)
    assert "conditional" not in opcodes(after.entry)
    (result,) = evaluate(after, [np.int32(7), X])
    np.testing.assert_array_equal(result, np.abs(X))


def test_selector_that_another_one_gives() -> None:
    """As lax.platform_dependent has it: the platform's number selects the number of the function."""
    numbers = [Computation.from_root("n", [], number(n, dtype=dtypes.S32)) for n in (2, 1)]
    platform = number(1, dtype=dtypes.S32)
    none = {"operand_counts": (0, 0)}
    which = Instruction("conditional", platform.shape, (platform,), none, numbers)
    x = parameter(0, 3)
    counts = {"operand_counts": (1, 1, 1)}
    branches = [branch(opcode) for opcode in BRANCHES]
    value = Instruction("conditional", x.shape, (which, x, x, x), counts, branches)
    after = take_known_branches(module([x], value))
    found = opcodes(after.entry)
    assert "conditional" not in found
    assert "exponential" in found


def test_unknown_selector_stays() -> None:
    which, x = parameter(0, dtype=dtypes.PRED), parameter(1, 3)
    branches = [branch("negate"), branch("abs")]
    counts = {"operand_counts": (1, 1)}
    before = module(
        [which, x], Instruction("conditional", x.shape, (which, x, x), counts, branches)
    )
    assert take_known_branches(before) is before
