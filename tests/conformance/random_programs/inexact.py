"""Operations whose results are rounded, for programs that are right within a tolerance."""

from __future__ import annotations

import math
from typing import Final

from tripont.core.compiler.ir import dtypes

from tests.conformance.programs import tensor
from tests.conformance.random_programs.builder import FLOATS, INTEGERS, Builder, Entry, Operation

_FUNCTIONS: Final = (
    "cbrt",
    "ceil",
    "cosine",
    "exponential",
    "exponential_minus_one",
    "floor",
    "log",
    "log_plus_one",
    "logistic",
    "round_nearest_even",
    "rsqrt",
    "sine",
    "sqrt",
    "tan",
    "tanh",
)
_COMPLEX_FUNCTIONS: Final = (
    "exponential",
    "log",
    "sqrt",
    "sine",
    "cosine",
    "tanh",
    "abs",
    "logistic",
)
_CHLO: Final = (
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "cosh",
    "erf",
    "erf_inv",
    "erfc",
    "sinh",
    "lgamma",
    "digamma",
    "square",
)


def _float(b: Builder, dims: bool = False) -> Entry | None:
    return b.pick(lambda v: v.dtype in FLOATS and (not dims or (v.dims and 0 not in v.dims)))


def function(b: Builder) -> None:
    a = b.any()
    if a.dtype.is_complex:
        name = b.choose(_COMPLEX_FUNCTIONS)
        b.keep(b.unary(name, a, a.dtype.component if name == "abs" else None))
    elif a.dtype in FLOATS:
        b.keep(b.unary(b.choose(_FUNCTIONS), a))


def chlo_function(b: Builder) -> None:
    a = _float(b)
    if a is not None and b.is_small(a.size):
        b.keep(b.emit(f"chlo.{b.choose(_CHLO)} {a.name} : {a.type} -> {a.type}", a.dtype, a.dims))


def short_forms(b: Builder) -> None:
    """Operations of CHLO that readers expand: the largest elements, neighbours of floats, which infinity it is."""
    a = b.any()
    mask = tensor(dtypes.PRED, *a.dims)
    if a.dtype.is_complex:
        b.keep(b.emit(f"chlo.conj {a.name} : {a.type} -> {a.type}", a.dtype, a.dims))
    elif a.dtype in (dtypes.F32, dtypes.F64) and b.chance():
        name = b.choose(["is_inf", "is_pos_inf", "is_neg_inf", "tan", "next_after", "next_after"])
        if name == "next_after":
            c = b.like(a)
            text = f"chlo.next_after {a.name}, {c.name} : {a.type}, {a.type} -> {a.type}"
            b.values.append(b.emit(text, a.dtype, a.dims))
        elif name == "tan":
            b.keep(b.emit(f"chlo.tan {a.name} : {a.type} -> {a.type}", a.dtype, a.dims))
        else:
            text = f"chlo.{name} {a.name} : {a.type} -> {mask}"
            b.values.append(b.emit(text, dtypes.PRED, a.dims))
    elif (
        a.dims and a.dims[-1] and (a.dtype in FLOATS or (a.dtype.is_integer and a.dtype.bits >= 8))
    ):
        dims = (*a.dims[:-1], b.integer(1, a.dims[-1]))
        name, kinds = b.fresh(), (tensor(a.dtype, *dims), tensor("s32", *dims))
        b.lines.append(
            f"{name}:2 = chlo.top_k({a.name}, k = {dims[-1]}) : {a.type} -> ({kinds[0]}, {kinds[1]})"
        )
        b.values += [Entry(f"{name}#0", a.dtype, dims), Entry(f"{name}#1", dtypes.S32, dims)]


def two_operands(b: Builder) -> None:
    a = _float(b)
    if a is None:
        return
    op = b.choose(["divide", "power", "atan2", "remainder", "divide"])
    c = b.like(a)
    if op == "power" and b.chance():  # a positive base
        a = b.unary("abs", a)
    b.keep(b.binary(op, a, c))


def normalise(b: Builder) -> None:
    """Rows less their means or largest elements, divided by a sum over the row: chains that become one kernel."""
    a = _float(b, dims=True)
    if a is None:
        return
    d = b.integer(0, len(a.dims) - 1)
    rest = [n for n in range(len(a.dims)) if n != d]

    def along(x: Entry) -> Entry:
        text = f"stablehlo.broadcast_in_dim {x.name}, dims = {rest} : ({x.type}) -> {a.type}"
        return b.emit(text, a.dtype, a.dims)

    if b.chance():
        low = -65504 if a.dtype is dtypes.F16 else -1e30
        shifted = b.binary("subtract", a, along(b.reduce("maximum", a, [d], low)))
        parts = b.unary("exponential", shifted)
        b.keep(b.binary("divide", parts, along(b.reduce("add", parts, [d], 0))))
        return
    count = b.full(a.dtype, [a.dims[n] for n in rest], a.dims[d])
    mean = b.binary("divide", b.reduce("add", a, [d], 0), count)
    centred = b.binary("subtract", a, along(mean))
    variance = b.binary(
        "divide", b.reduce("add", b.binary("multiply", centred, centred), [d], 0), count
    )
    variance = b.binary("add", variance, b.full(a.dtype, variance.dims, 0.125))
    b.keep(b.binary("multiply", centred, along(b.unary("rsqrt", variance))))


def batch_norm(b: Builder) -> None:
    a = b.pick(
        lambda v: v.dtype in (dtypes.F32, dtypes.F64) and len(v.dims) >= 2 and 0 not in v.dims
    )
    if a is None:
        return
    d = b.integer(0, len(a.dims) - 1)
    vectors = [b.finite(b.fit(b.any(), a.dtype, (a.dims[d],))) for _ in range(4)]
    vectors[3] = b.binary("add", b.unary("abs", vectors[3]), b.full(a.dtype, (a.dims[d],), 0.5))
    how = f"<{{epsilon = 0.125 : f32, feature_index = {d} : i64}}>"
    v = vectors[0].type
    kind = b.integer(0, 2)
    if kind == 0:
        given = ", ".join(x.name for x in (a, *vectors))
        b.keep(
            b.emit(
                f'"stablehlo.batch_norm_inference"({given}) {how} : ({a.type}, {v}, {v}, {v}, {v}) -> {a.type}',
                a.dtype,
                a.dims,
            )
        )
        return
    name = b.fresh()
    if kind == 1:
        given, types = f"{a.name}, {vectors[0].name}, {vectors[1].name}", f"{a.type}, {v}, {v}"
    else:
        output = b.like(a)
        names = (a, vectors[0], vectors[1], vectors[3], output)
        given, types = ", ".join(x.name for x in names), f"{a.type}, {v}, {v}, {v}, {a.type}"
    op = "batch_norm_training" if kind == 1 else "batch_norm_grad"
    b.lines.append(
        f'{name}:3 = "stablehlo.{op}"({given}) {how} : ({types}) -> ({a.type}, {v}, {v})'
    )
    b.keep(Entry(f"{name}#0", a.dtype, a.dims))
    b.keep(Entry(f"{name}#{b.integer(1, 2)}", a.dtype, (a.dims[d],)))


def fft(b: Builder) -> None:
    a = b.pick(
        lambda v: (
            v.dims
            and 0 not in v.dims
            and v.dtype in (dtypes.F32, dtypes.F64, dtypes.C64, dtypes.C128)
        )
    )
    if a is None:
        return
    n = a.dims[-1]
    if a.dtype.is_complex:
        kind = b.choose(["FFT", "IFFT"])
        text = f"stablehlo.fft {a.name}, type = {kind}, length = [{n}] : ({a.type}) -> {a.type}"
        b.keep(b.emit(text, a.dtype, a.dims))
        return
    whole = dtypes.C64 if a.dtype is dtypes.F32 else dtypes.C128
    dims = (*a.dims[:-1], n // 2 + 1)
    text = f"stablehlo.fft {a.name}, type = RFFT, length = [{n}] : ({a.type}) -> {tensor(whole, *dims)}"
    c = b.emit(text, whole, dims)
    if whole in b.types:
        b.keep(c)
    text = f"stablehlo.fft {c.name}, type = IRFFT, length = [{n}] : ({c.type}) -> {a.type}"
    b.keep(b.emit(text, a.dtype, a.dims))


def _square(b: Builder) -> Entry | None:
    """Matrices, as many as there are."""
    a = b.pick(lambda v: v.dtype in (dtypes.F32, dtypes.F64) and v.size > 0)
    if a is None:
        return None
    n, batch = b.integer(1, 6), b.choose([(), (), (2,), (2, 3)])
    a = b.finite(b.fit(a, a.dtype, (*batch, n, n)))
    a = b.binary("minimum", a, b.full(a.dtype, a.dims, 1))
    return b.binary("maximum", a, b.full(a.dtype, a.dims, -1))


def _with_diagonal(b: Builder, a: Entry, value: float) -> Entry:
    rows, columns = (
        b.emit(
            f"stablehlo.iota dim = {len(a.dims) - k} : {tensor('s32', *a.dims)}", dtypes.S32, a.dims
        )
        for k in (1, 2)
    )
    there = b.full(a.dtype, a.dims, value)
    return b.select(b.compare("EQ", rows, columns), b.binary("add", a, there), a)


def cholesky(b: Builder) -> None:
    """Of a matrix whose diagonal is larger than the sum of its row."""
    a = _square(b)
    if a is None:
        return
    a = _with_diagonal(b, a, 2.0 * a.dims[-1] + 2)
    lower = b.choose(["true", "false"])
    factor = b.emit(f"stablehlo.cholesky {a.name}, lower = {lower} : {a.type}", a.dtype, a.dims)
    rows, columns = (
        b.emit(
            f"stablehlo.iota dim = {len(a.dims) - k} : {tensor('s32', *a.dims)}", dtypes.S32, a.dims
        )
        for k in (2, 1)
    )
    kept = b.compare("GE" if lower == "true" else "LE", rows, columns)  # the rest may be anything
    b.keep(b.select(kept, factor, b.full(a.dtype, a.dims, 0)))


def triangular_solve(b: Builder) -> None:
    a = _square(b)
    if a is None:
        return
    a = _with_diagonal(b, a, 2.0 * a.dims[-1] + 2)
    left, m = b.chance(), b.integer(1, 5)
    n = a.dims[-1]
    c = b.finite(b.fit(b.any(), a.dtype, (*a.dims[:-2], *((n, m) if left else (m, n)))))
    flags = ", ".join(
        f"{key} = {'true' if value else 'false'}"
        for key, value in (("left_side", left), ("lower", b.chance()), ("unit_diagonal", False))
    )
    how = b.choose(["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"])
    b.keep(
        b.emit(
            f'"stablehlo.triangular_solve"({a.name}, {c.name}) <{{{flags}, transpose_a = #stablehlo<transpose {how}>}}>'
            f" : ({a.type}, {c.type}) -> {c.type}",
            a.dtype,
            c.dims,
        )
    )


def affine(b: Builder) -> None:
    """A product of matrices with a bias and an activation: what libraries do in one call."""
    a = b.pick(lambda v: v.dtype in FLOATS and v.size and b.is_small(v.size))
    if a is None:
        return
    m, k, n = (b.integer(1, 8 if b.scale == 1 else 80) for _ in range(3))
    if not b.is_quick(m * k * n) or not b.fits(max(m * k, k * n, m * n)):
        return
    x, w = b.fit(a, a.dtype, (m, k)), b.fit(b.any(), a.dtype, (k, n))
    y = b.emit(
        f"stablehlo.dot_general {x.name}, {w.name}, contracting_dims = [1] x [0] : ({x.type}, {w.type}) -> {tensor(a.dtype, m, n)}",
        a.dtype,
        (m, n),
    )
    bias = b.fit(b.any(), a.dtype, (n,))
    wide = b.emit(
        f"stablehlo.broadcast_in_dim {bias.name}, dims = [1] : ({bias.type}) -> {y.type}",
        a.dtype,
        (m, n),
    )
    y = b.binary("add", y, wide)
    what = b.integer(0, 3)
    if what == 0:
        y = b.binary("maximum", y, b.full(a.dtype, (m, n), 0))
    elif what == 1:
        y = b.unary(b.choose(["tanh", "logistic", "exponential"]), y)
    elif what == 2:
        y = b.binary(b.choose(["add", "multiply"]), y, b.fit(b.any(), a.dtype, (m, n)))
    b.keep(y)


def to_integer(b: Builder) -> None:
    """Numbers beyond the ends of an integer type, which saturate; infinities; NaN, which is 0."""
    a = _float(b)
    if a is None:
        return
    dtype = b.choose(INTEGERS)
    if b.chance():
        a = b.binary(
            "multiply", a, b.full(a.dtype, a.dims, 2.0 ** b.integer(0, min(dtype.bits, 15)))
        )
    if b.integer(0, 3) == 0:
        a = b.binary("divide", a, b.unary("floor", b.like(a)))
    b.values.append(b.unary("convert", a, dtype))


def quantized(b: Builder) -> None:
    """Through a quantized type and back, with a product or a sum of quantized numbers between."""
    a = b.pick(lambda v: v.dtype is dtypes.F32 and v.dims and 0 not in v.dims)
    if a is None:
        return
    storage, low, high = b.choose([("i8", -128, 127), ("i16", -32768, 32767), ("i4", -8, 7)])
    scale, zero = 2.0 ** b.integer(-5, 1), b.integer(max(low, -40), min(high, 40))

    def kind(dims: tuple[int, ...], zero: int = zero) -> str:
        return f"tensor<{''.join(f'{d}x' for d in dims)}!quant.uniform<{storage}:f32, {scale!r}:{zero}>>"

    def quantize(x: Entry, zero: int = zero) -> str:
        name, q = b.fresh(), kind(x.dims, zero)
        b.lines.append(f"{name} = stablehlo.uniform_quantize {x.name} : ({x.type}) -> {q}")
        return name

    q, dims = quantize(a), a.dims
    if len(dims) == 2 and b.is_quick(a.size * 3) and b.chance():
        w = b.fit(b.any(), dtypes.F32, (dims[1], 3))
        other, product = quantize(w, 0), b.fresh()
        b.lines.append(
            f"{product} = stablehlo.dot_general {q}, {other}, contracting_dims = [1] x [0]"
            f" : ({kind(dims)}, {kind(w.dims, 0)}) -> {kind((dims[0], 3))}"
        )
        q, dims = product, (dims[0], 3)
    elif b.chance():
        other, total = quantize(b.like(a)), b.fresh()
        b.lines.append(
            f"{total} = stablehlo.{b.choose(['add', 'maximum', 'multiply'])} {q}, {other} : {kind(dims)}"
        )
        q = total
    target = tensor(dtypes.F32, *dims)
    b.keep(
        b.emit(f"stablehlo.uniform_dequantize {q} : ({kind(dims)}) -> {target}", dtypes.F32, dims)
    )


def running_sum(b: Builder) -> None:
    """Sums of what stands before, as a window of the whole dimension."""
    a = b.pick(lambda v: v.dtype in FLOATS and v.dims and 0 not in v.dims and b.is_small(v.size))
    if a is None:
        return
    d = b.integer(0, len(a.dims) - 1)
    if not b.is_quick(math.prod(a.dims) * a.dims[d]):
        return
    zero = b.constant(a.dtype, 0)
    sizes = [n if k == d else 1 for k, n in enumerate(a.dims)]
    padding = [[n - 1, 0] if k == d else [0, 0] for k, n in enumerate(a.dims)]
    s = tensor(a.dtype)
    b.keep(
        b.emit(
            f'"stablehlo.reduce_window"({a.name}, {zero.name}) <{{window_dimensions = array<i64: {", ".join(map(str, sizes))}>,'
            f" padding = dense<{padding}> : tensor<{len(sizes)}x2xi64>}}> ({{\n^bb0(%a: {s}, %b: {s}):\n"
            f"%c = stablehlo.add %a, %b : {s}\nstablehlo.return %c : {s}\n}}) : ({a.type}, {s}) -> {a.type}",
            a.dtype,
            a.dims,
        )
    )


INEXACT: Final[tuple[Operation, ...]] = (
    *[function] * 8,
    *[chlo_function] * 6,
    *[short_forms] * 3,
    *[two_operands] * 4,
    *[normalise] * 3,
    batch_norm,
    fft,
    cholesky,
    triangular_solve,
    *[affine] * 3,
    *[running_sum] * 2,
    *[to_integer] * 2,
    quantized,
)
