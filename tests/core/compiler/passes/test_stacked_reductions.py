"""Reductions over stacks of a few arrays are their bodies, one array after the other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from tripont.core.compiler.ir import hlo
from tripont.core.compiler.ir.dtypes import BF16, F32, PRED, S8, S32, DType
from tripont.core.compiler.ir.hlo import Computation, Instruction, Module, Shape
from tripont.core.compiler.passes.stacked_reductions import MOST_ARRAYS, unstack_reductions
from tripont.core.compiler.reference.evaluate import evaluate

from tests.core.compiler.builders import compare, module, number, op, opcodes, parameter, reduce

SPECIAL = np.float32([-0.0, 0.0, np.inf, -np.inf, np.nan, -1.5, 3.0, 1e30])


def stack(parts: Sequence[Instruction], along: int) -> Instruction:
    dims = parts[0].dims
    one = (*dims[:along], 1, *dims[along:])
    whole = (*dims[:along], len(parts), *dims[along:])
    pieces = [op("reshape", p, dims=one) for p in parts]
    return op("concatenate", *pieces, dims=whole, dimension=along)


def argmax_body(dtype: DType) -> Computation:
    """As JAX writes it: the larger value, of equal ones the first."""
    a, m, b, n = (parameter(k, dtype=d) for k, d in enumerate((dtype, S32, dtype, S32)))
    larger = op("or", compare(a, b, "GT"), compare(a, a, "NE"))
    first = op("and", compare(a, b, "EQ"), compare(m, n, "LT"))
    value = op("select", larger, a, b, dtype=dtype)
    place = op("select", op("or", larger, first), m, n, dtype=S32)
    root = Instruction("tuple", hlo.TupleShape((Shape(dtype), Shape(S32))), (value, place))
    return Computation.from_root("argmax", [a, m, b, n], root)


def argmax(x: Instruction, along: int, initial: float) -> list[Instruction]:
    """The largest values and their places."""
    dims = tuple(n for d, n in enumerate(x.dims) if d != along)
    places = hlo.Instruction("iota", Shape(S32, x.dims), (), {"dimension": along})
    starts = (hlo.constant(initial, x.dtype), hlo.constant(0, S32))
    shape = hlo.TupleShape((Shape(x.dtype, dims), Shape(S32, dims)))
    found = Instruction(
        "reduce", shape, (x, places, *starts), {"dimensions": (along,)}, (argmax_body(x.dtype),)
    )
    return [hlo.get_tuple_element(found, n) for n in range(2)]


def unstacked(before: Module, arguments: Sequence[np.ndarray]) -> list[str]:
    """The opcodes of the entry after the pass, which gives the same bits."""
    after = unstack_reductions(before)
    with np.errstate(all="ignore"):
        values = [evaluate(m, arguments) for m in (before, after)]
    for a, b in zip(*values, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a.astype(np.float32), b.astype(np.float32))
    return opcodes(after.entry)


@pytest.mark.parametrize("along", [0, 1, 2])
@pytest.mark.parametrize("count", [2, 5, MOST_ARRAYS])
@pytest.mark.parametrize(
    ("opcode", "initial", "dtype"),
    [("add", 0.0, F32), ("maximum", -np.inf, F32), ("add", 0, S8), ("or", 0, PRED), ("minimum", np.inf, BF16)],
)  # fmt: skip
def test_each_array_is_combined(
    opcode: str, initial: float, dtype: DType, count: int, along: int
) -> None:
    x = [parameter(n, 2, 4, dtype=dtype) for n in range(count)]
    before = module(x, reduce(stack(x, along), (along,), opcode, initial))
    rng = np.random.default_rng(count)
    given = [rng.permutation(SPECIAL if dtype.is_float else np.arange(8)).reshape(2, 4) for _ in x]
    if opcode == "add" and dtype is F32:
        given = [np.nan_to_num(a, nan=2, posinf=5, neginf=-5) for a in given]
    assert "reduce" not in unstacked(before, [a.astype(dtype.numpy) for a in given])


@pytest.mark.parametrize("along", [0, 2])
def test_the_first_of_the_largest(along: int) -> None:
    """Values and places are both results; NaN and equal numbers are found where they were."""
    x = [parameter(n, 2, 4) for n in range(4)]
    before = module(x, *argmax(stack(x, along), along, -np.inf))
    for seed in range(10):
        rng = np.random.default_rng(seed)
        given = [rng.choice(SPECIAL, (2, 4)) for _ in x]
        assert "reduce" not in unstacked(before, given)


def test_conditions_one_after_the_other() -> None:
    """``jnp.select``: the place of the first condition that holds, in a stack that a constant begins."""
    x = parameter(0, 8)
    conditions = [
        number(0, 8, dtype=PRED),
        compare(x, number(1.0, 8), "GT"),
        compare(x, number(0.0, 8), "GT"),
    ]
    before = module([x], argmax(stack(conditions, 0), 0, 0)[1])
    assert "concatenate" not in unstacked(before, [SPECIAL])


def test_a_broadcast_array_beside_the_stack() -> None:
    x = [parameter(n, 3) for n in range(3)]
    weights = parameter(3, 3)
    wide = hlo.broadcast(weights, (3, 3), (1,))
    dims = hlo.TupleShape((Shape(F32, (3,)), Shape(F32, (3,))))
    a, m, b, n = (parameter(k) for k in range(4))
    pair = hlo.TupleShape((Shape(F32), Shape(F32)))
    root = Instruction("tuple", pair, (op("add", a, b), op("maximum", m, n)))
    body = Computation.from_root("both", [a, m, b, n], root)
    zero = hlo.constant(0.0, F32)
    found = Instruction("reduce", dims, (stack(x, 0), wide, zero, zero), {"dimensions": (0,)}, (body,))  # fmt: skip
    before = module([*x, weights], *(hlo.get_tuple_element(found, k) for k in range(2)))
    given = [np.float32([1, 2, 3]) * k for k in range(4)]
    assert "reduce" not in unstacked(before, given)


def stays(root: Instruction, parameters: Sequence[Instruction]) -> bool:
    return "reduce" in opcodes(unstack_reductions(module(parameters, root)).entry)


def test_what_stays_a_reduction() -> None:
    x = [parameter(n, 4) for n in range(MOST_ARRAYS + 1)]
    assert stays(reduce(stack(x, 0), (0,)), x)
    assert stays(reduce(stack(x[:3], 0), (1,)), x[:3])
    assert stays(reduce(stack(x[:3], 0), (0, 1)), x[:3])
    wide = parameter(0, 3, 4)
    assert stays(reduce(wide, (0,)), [wide])
    pieces = op("concatenate", wide, wide, dims=(6, 4), dimension=0)
    assert stays(reduce(pieces, (0,)), [wide])


def test_sums_of_short_floats_are_rounded_once() -> None:
    x = [parameter(n, 4, dtype=BF16) for n in range(3)]
    assert stays(reduce(stack(x, 0), (0,)), x)
    assert not stays(reduce(stack(x, 0), (0,), "maximum", -np.inf), x)
