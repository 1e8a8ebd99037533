"""How a loop's numbers go along with its steps, in its body and in fusions of it."""

from __future__ import annotations

from tripont.core.compiler.ir.dtypes import S8, S32, DType
from tripont.core.compiler.ir.hlo import Computation, Instruction, TupleShape, constant
from tripont.core.compiler.ir.trip_counts import Steps

from tests.core.compiler.builders import compare, op, parameter

STEPS = 10


def fused(computation: Computation, *operands: Instruction) -> Instruction:
    shape = computation.root.shape
    return Instruction("fusion", shape, operands, {"kind": "loop"}, [computation])


def plus(by: int, dtype: DType = S32) -> Computation:
    p = parameter(0, dtype=dtype)
    return Computation.from_root("plus", [p], op("add", p, constant(by, dtype)))


def counted(following: Instruction, i: Instruction, first: int = 0) -> Steps:
    """A loop of one state, ``i`` in its body, which begins at ``first``."""
    root = Instruction("tuple", TupleShape((i.shape,)), (following,))
    state = parameter(0, dtype=i.dtype)
    condition = Computation.from_root(
        "condition", [state], compare(state, constant(STEPS, i.dtype), "LT")
    )
    body = Computation.from_root("body", [i], root)
    start = constant(first, i.dtype)
    loop = Instruction("while", TupleShape((i.shape,)), (start,), {}, [condition, body])
    return Steps(loop, STEPS)


def test_a_counter_that_a_fusion_advances() -> None:
    i = parameter(0, dtype=S32)
    assert counted(fused(plus(3), i), i, 5).line(i) == (5, 3)
    p, q = parameter(0, dtype=S32), parameter(1, dtype=S32)
    takes_both = Computation.from_root("less", [p, q], op("subtract", q, p))
    assert counted(fused(takes_both, constant(2, S32), i), i, 30).line(i) == (30, -2)
    assert counted(fused(takes_both, i, constant(2, S32)), i, 30).line(i) is None


def test_results_of_fusions_are_lines() -> None:
    i = parameter(0, dtype=S32)
    steps = counted(op("add", i, constant(1, S32)), i)
    p = parameter(0, dtype=S32)
    shape = TupleShape((p.shape, p.shape))
    pair = Instruction("tuple", shape, (op("negate", p), op("multiply", p, constant(4, S32))))
    both = fused(Computation.from_root("pair", [p], pair), fused(plus(7), i))
    second = Instruction("get-tuple-element", p.shape, (both,), {"index": 1})
    assert steps.line(second) == (28, 4)
    assert steps.line(Instruction("get-tuple-element", p.shape, (both,), {"index": 0})) == (-7, -1)
    assert steps.stays_in(second, 28, 28 + 4 * (STEPS - 1))
    assert not steps.stays_in(second, 28, 28 + 4 * (STEPS - 1) - 1)


def test_what_a_computation_has_depends_on_its_fusion() -> None:
    """Fusions of the same form have one computation."""
    i = parameter(0, dtype=S32)
    steps = counted(op("add", i, constant(1, S32)), i)
    computation = plus(7)
    first, second = fused(computation, i), fused(computation, op("add", i, i))
    assert steps.line(computation.root, (first,)) == (7, 1)
    assert steps.line(computation.root, (second,)) == (7, 2)
    assert steps.line(computation.root.operands[0], (second,)) == (0, 2)


def test_a_fusion_in_a_fusion() -> None:
    """Its operands are those of the outer one and not states of the loop."""
    i = parameter(0, dtype=S32)
    steps = counted(op("add", i, constant(1, S32)), i)
    p = parameter(0, dtype=S32)
    outer = Computation.from_root("outer", [p], fused(plus(1), op("add", p, p)))
    assert steps.line(fused(outer, op("add", i, constant(10, S32)))) == (21, 2)


def test_a_number_of_a_fusion_that_would_wrap() -> None:
    i = parameter(0, dtype=S8)
    steps = counted(op("add", i, constant(1, S8)), i)
    assert steps.line(fused(plus(127 - STEPS + 1, S8), i)) == (127 - STEPS + 1, 1)
    assert steps.line(fused(plus(127 - STEPS + 2, S8), i)) is None


def test_one_element_of_an_array() -> None:
    i = parameter(0, dtype=S32)
    steps = counted(op("add", i, constant(1, S32)), i)
    assert steps.line(op("reshape", i, dims=(1, 1))) == (0, 1)
    assert steps.line(op("broadcast", i, dims=(2,), dimensions=())) is None
