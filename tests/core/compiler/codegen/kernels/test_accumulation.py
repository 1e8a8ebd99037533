"""Long sums, products and cumulative reductions: their errors stay below a bound that grows with the logarithm of the
length, and results do not depend on how the work is shared out.

A term goes through at most BLOCK + BLOCKS * levels additions of its accumulator, BLOCK * BLOCKS ** levels being at
most the number of terms (cumulative reductions: LONGEST + BLOCK * levels), and through a few more where unrolled
accumulators (8 at most) and lanes (16 at most) are combined: log2(8) + log2(16), the rest of a row and the initial
value. Each rounds by u = eps / 2 at most, which makes |error| <= additions * u * sum(|terms|), to first order in u.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from tripont.core.compiler.codegen.kernels import accumulation
from tripont.core.compiler.ir import hlo
from tripont.core.compiler.ir.dtypes import BF16, C64, F32, F64, S32, DType
from tripont.core.compiler.ir.hlo import WindowDimension as W
from tripont.core.compiler.targets.host import for_cpu

from tests.core.compiler.codegen.harness import Kernel, fusion, op

from .test_reductions import binary_body, reduce

S = hlo.Shape
CPUS = ["host", "x86-64-v2"]


def additions(terms: int, block: int = accumulation.BLOCK) -> int:
    levels = math.ceil(math.log(terms, block))
    return max(accumulation.LONGEST, 2 * block) + block * levels + 3 + 4 + 2


def assert_close(
    got: np.ndarray, want: np.ndarray, terms: int, block: int = accumulation.BLOCK
) -> None:
    """``want``: the sums in f64 of terms of one sign."""
    error = np.max(np.abs(got.astype(np.float64) - want) / np.abs(want))
    assert error <= additions(terms, block) * np.finfo(got.dtype).eps / 2


def halves(kernel: Kernel, arguments: list[np.ndarray]) -> np.ndarray:
    """The result, which is the same wherever the work is cut."""
    count = kernel.emitted.work_count
    (got,) = kernel.run(arguments)
    (again,) = kernel.run(arguments, [count // 3, count // 2])
    np.testing.assert_array_equal(got, again)
    return got


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize(
    ("dims", "dimensions"),
    [
        ((1 << 16,), (0,)), (((1 << 20) + 3,), (0,)), ((1 << 22,), (0,)), ((2, 131_071), (1,)), ((1 << 20, 4), (0,)),
        ((65_537, 70), (0,)), ((40, 50, 3, 60), (0, 1, 3)), ((300, 300, 20), (0, 1)), ((600, 5, 700), (0, 2)),
    ],
    ids=str,
)  # fmt: skip
def test_sums_of_equal_terms(dims, dimensions, cpu) -> None:
    """Equal terms are the worst case: the roundings of a running sum have one sign."""
    x = hlo.parameter(0, S(F32, dims))
    kernel = Kernel(fusion("reduce", [x], reduce(x, dimensions)), for_cpu(cpu))
    term = np.float32(0.1)
    terms = math.prod(dims[d] for d in dimensions)
    got = halves(kernel, [np.full(dims, term)])
    assert_close(got, np.full(got.shape, terms * np.float64(term)), terms)


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("n", [4_096, 65_536, 89_600, 1 << 20])
def test_sums_are_as_exact_as_numpys(n, cpu) -> None:
    """NumPy adds in pairs blocks of 128 terms, each in eight accumulators. The worst of 40 sizes of equal terms."""
    x = hlo.parameter(0, S(F32, (n,)))
    kernel = Kernel(fusion("reduce", [x], reduce(x, (0,))), for_cpu(cpu))
    ours, theirs = [], []
    for term in np.random.default_rng(0).uniform(0.5, 1, 40).astype(np.float32):
        terms = np.full((n,), term)
        (got,) = kernel.run([terms])
        want = n * np.float64(term)
        ours.append(abs(float(got) - want) / want)
        theirs.append(abs(float(terms.sum()) - want) / want)
    assert max(ours) <= max(theirs)


def test_mean_in_a_normalisation() -> None:
    """A row kernel: the mean taken off."""
    n = 1 << 19
    x = hlo.parameter(0, S(F32, (2, n)))
    mean = op("broadcast", x.shape, reduce(x, (1,)), dimensions=(0,))
    kernel = Kernel(fusion("row", [x], op("subtract", x.shape, x, mean)))
    (got,) = kernel.run([np.full((2, n), np.float32(0.1))])
    assert_close(-got, np.full((2, n), n * np.float64(np.float32(0.1)) - 0.1), n)


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize(
    ("lhs", "rhs"),
    [
        ((1 << 20,), (1 << 20,)), ((3, 100_003), (100_003,)), ((100_003,), (100_003, 40)), ((65_536,), (65_536, 200)),
        ((5, 65_537), (65_537, 7)), ((12, 65_536), (9, 65_536)),
    ],
    ids=str,
)  # fmt: skip
def test_products_of_equal_terms(lhs, rhs, cpu) -> None:
    """Vector by vector, matrix by vector, vector by matrix (in panels), and small matrices that are long."""
    n = lhs[-1]
    at = rhs.index(n)
    a, b = hlo.parameter(0, S(F32, lhs)), hlo.parameter(1, S(F32, rhs))
    numbers = hlo.DotDimensionNumbers((len(lhs) - 1,), (at,))
    dims = (*lhs[:-1], *(d for k, d in enumerate(rhs) if k != at))
    dot = op("dot", S(F32, dims), a, b, dimension_numbers=numbers)
    got = halves(
        Kernel(dot, for_cpu(cpu)), [np.full(lhs, np.float32(0.1)), np.ones(rhs, np.float32)]
    )
    # Small matrices have longer blocks (contraction._BLOCK), panels those of 8 rows times 32.
    assert_close(got, np.full(got.shape, n * np.float64(np.float32(0.1))), n, block=128)


# ------------------------------------------------------------------------------------------ cumulative reductions


def cumulative(
    dims, dimension, body, dtype: DType = F32, backward: bool = False
) -> hlo.Instruction:
    n = dims[dimension]
    along = W(n, padding_high=n - 1) if backward else W(n, padding_low=n - 1)
    window = tuple(along if d == dimension else W(1) for d in range(len(dims)))
    operands = [hlo.parameter(0, S(dtype, dims)), hlo.parameter(1, S(dtype))]
    return op("reduce-window", S(dtype, dims), *operands, called=[body], window=window)


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize(
    ("dims", "dimension"),
    [
        ((1 << 16,), 0),
        (((1 << 20) + 5,), 0),
        ((1 << 22,), 0),
        ((3, 70_001), 1),
        ((70_001, 3), 0),
        ((5_000, 130), 0),
    ],
    ids=str,
)
def test_cumulative_sums(dims, dimension, backward, cpu) -> None:
    i = cumulative(dims, dimension, binary_body("add", F32), backward=backward)
    term = np.float32(0.1)
    got = halves(Kernel(i, for_cpu(cpu)), [np.full(dims, term), np.float32(0)])
    n = dims[dimension]
    counts = np.arange(n, 0, -1) if backward else np.arange(1, n + 1)
    want = np.float64(term) * counts.reshape([n if d == dimension else 1 for d in range(len(dims))])
    assert_close(got, np.broadcast_to(want, dims), n)


def later_unless_zero(dtype: DType) -> hlo.Computation:
    """Associative, not commutative, and known to nobody: the second one, or the first if that is zero."""
    a, b = hlo.parameter(0, S(dtype)), hlo.parameter(1, S(dtype))
    zero = hlo.constant(0, dtype)
    compare = op("compare", S(hlo.dtypes.PRED), b, zero, direction="NE", comparison_type="SIGNED")
    return hlo.Computation.from_root("later", [a, b], op("select", S(dtype), compare, b, a))


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("n", [1, 3, 15, 16, 17, 40, 511, 513, 9_000])
def test_order_of_any_body(n, backward) -> None:
    """Numbers that say where they came from; the initial value shows once, at the end that is taken first."""
    rng = np.random.default_rng(n)
    for dims, dimension in [((2, n), 1), ((n, 5), 0), ((n, 70), 0)]:
        i = cumulative(dims, dimension, later_unless_zero(S32), S32, backward)
        x = rng.integers(1, 1 << 30, dims, np.int32) * (rng.random(dims) < 0.3)
        (got,) = Kernel(i).run([x, np.int32(0)])
        want = np.moveaxis(x.copy(), dimension, 0)
        # Each element of a backward one is the last that is not zero of those from it on: its own place counts first.
        if backward:
            for k in range(n - 2, -1, -1):
                want[k] = np.where(want[k + 1] != 0, want[k + 1], want[k])
        else:
            for k in range(1, n):
                want[k] = np.where(want[k] != 0, want[k], want[k - 1])
        np.testing.assert_array_equal(np.moveaxis(got, dimension, 0), want)


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("initial", [0, 5])
@pytest.mark.parametrize("opcode", ["add", "maximum", "xor"])
def test_cumulative_integers(opcode, initial, backward) -> None:
    """Initial values that are not neutral are taken in once."""
    x = np.random.default_rng(0).integers(-1000, 1000, (3, 1_025), np.int32)
    i = cumulative(x.shape, 1, binary_body(opcode, S32), S32, backward)
    (got,) = Kernel(i).run([x, np.int32(initial)])
    apply = {"add": np.add, "maximum": np.maximum, "xor": np.bitwise_xor}[opcode]
    ordered = x[:, ::-1] if backward else x
    want = apply(apply.accumulate(ordered, axis=1), np.int32(initial))
    np.testing.assert_array_equal(got, want[:, ::-1] if backward else want)


@pytest.mark.parametrize("dtype", [BF16, F64, C64], ids=str)
def test_cumulative_dtypes(dtype) -> None:
    """Products of 77 factors; those of bf16 are computed in f32 and rounded once."""
    i = cumulative((3, 77), 1, binary_body("multiply", dtype), dtype)
    rng = np.random.default_rng(0)
    x = (rng.uniform(0.9, 1.1, (3, 77)) * (1 + 0.05j if dtype is C64 else 1)).astype(dtype.numpy)
    (got,) = Kernel(i).run([x, np.ones((), dtype.numpy)])
    wide = np.complex128 if dtype is C64 else np.float64
    want = np.multiply.accumulate(x.astype(wide), axis=1)
    eps = {"bf16": 2.0**-8, "f64": 2.0**-52, "c64": 2.0**-23}[dtype.name]
    roundings = 1 if dtype is BF16 else 2 * additions(77)
    np.testing.assert_allclose(got.astype(wide), want, rtol=roundings * eps)


def test_exact_operations_have_no_blocks() -> None:
    body = binary_body("maximum", F32)
    assert not accumulation.rounds([body])
    assert accumulation.rounds([body, binary_body("add", F32)])
    assert not accumulation.rounds([binary_body("add", S32)])
