"""sin, cos and tan.

Reduction: x = q pi/2 + r with q an integer and |r| <= pi/4, r in two words. Up to some size
(Cody and Waite) q is found by rounding x 2/pi, and pi/2 is subtracted q times in parts of 33 bits,
whose product with q is exact; ``float`` takes three words and needs fused multiply-add, without
which it goes through ``double``. Beyond that size (Payne and Hanek) the argument's integer mantissa
is multiplied with those 192 bits of 2/pi that matter: a scalar function of the module, called lane
by lane in a block that is entered only if some lane needs it.

On |r| <= pi/4, with z = r^2:

    sin r = r + r z (-1/6 + z S(z)),    cos r = 1 + z (-1/2 + z C(z))

S and C are minimax for the relative error of sin and cos (benchmarks/minimax.py): 2^-36.2 and 2^-32.9
for float, 2^-67.9 and 2^-68.9 for double. They alone have one word; all else has two, so that what is
left is the last rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from ...targets.target import Target
from .. import llvm_ir
from ..llvm_ir import Builder, Value
from .arithmetic import INFINITY, Arithmetic, Pair
from .tiny import is_ordinary

_SIN: Final = {
    "float": (0.008333331905305386, -0.00019840033201035112, 2.7241092084295815e-06),
    "double": (
        0.00833333333333333, -0.000198412698412616, 2.7557319217062474e-06, -2.5052105559532623e-08,
        1.6058439320826053e-10, -7.581912274129247e-13,
    ),
}  # fmt: skip
_COS: Final = {
    "float": (0.04166664555668831, -0.0013887308305129409, 2.4432092686765827e-05),
    "double": (
        0.041666666666666664, -0.001388888888888839, 2.4801587301184304e-05,
        -2.755731906275122e-07, 2.087672258546661e-09, -1.1466938189419653e-11,
        4.596567841716909e-14,
    ),
}  # fmt: skip
# In two words of the format.
_MINUS_SIXTH: Final = {
    "float": (-0.1666666716337204, 4.967053879312289e-09),
    "double": (-0.16666666666666666, -9.25185853854297e-18),
}
_TWO_OVER_PI: Final = 0.6366197723675814
# pi/2 = the sum of these, the first three with 33 significant bits.
_PI_OVER_2: Final = (
    1.5707963267341256, 6.077100506303966e-11, 2.0222662487111665e-21, 8.4784276603689e-32,
)  # fmt: skip
# Up to here q has at most 20 bits, so that its products with the parts are exact.
_LARGE: Final = 1.0e6
# The same for float with fused multiply-add: 24 bits each.
_PI_OVER_2_FLOAT: Final = (1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15)
_LARGE_FLOAT: Final = 1.0e5
# pi in two words.
_PI: Final = {
    "float": (3.1415927410125732, -8.742277657347586e-08),
    "double": (3.141592653589793, 1.2246467991473532e-16),
}
# The first 1280 bits of 2/pi, after 64 zeros that stand before the binary point.
_TWO_OVER_PI_WORDS: Final = (
    0,
    11743562013128004905, 18169587780923219392, 15808362127397457985, 18325537948574664033,
    13196794004601950944, 452944820249399836, 18311050168422213438, 16754012890938950788,
    16833452818741296705, 4148332274289687028, 11278244420634880059, 2303758334597371919,
    17235013589178936607, 7869616827067468215, 5712322887342352941, 8441921394348257659,
    4397547296490951402, 7780917995555872008, 6197850593633725355, 17352294737506481693,
)  # fmt: skip
_REDUCE_LARGE: Final = "tripont.reduce_large"


class _Reduced(NamedTuple):
    """x = quadrant pi/2 + r.high + r.low; only the quadrant's low 2 bits count (i32 for float)."""

    quadrant: Value
    r: Pair


def _reduced_types(scalar: str) -> list[str]:
    """The types of the results of ``reduce_large``: r high, r low, quadrant."""
    return [scalar, scalar, "i64"]


def _define_reduce_large(module: llvm_ir.Module, target: Target, scalar: str) -> str:
    """Define ``{r high, r low, quadrant} reduce_large(x)`` for finite |x| >= 2^-20 in the module; its name."""
    name = f"{_REDUCE_LARGE}.{llvm_ir.mangle(scalar)}"
    if name in module.functions:
        return name
    b = Builder(
        module, name, [scalar], llvm_ir.aggregate_type(_reduced_types(scalar)), linkage="internal",
        attributes=f"{target.function_attributes} cold noinline",
    )  # fmt: skip
    m = Arithmetic(b, target, scalar)
    x = b.arguments[0]
    stored, bias = m.format.mantissa, m.format.bias
    bits = m.bits(m.absolute(x))
    if not m.is_double:
        bits = b.cast("zext", bits, "i64")
    exponent = b.binary("lshr", bits, llvm_ir.i64(stored))
    mantissa = b.binary("and", bits, llvm_ir.i64((1 << stored) - 1))
    mantissa = b.binary("or", mantissa, llvm_ir.i64(1 << stored))
    # x = mantissa 2^(exponent - bias - stored). The bits of 2/pi with weights of 4 and more, after that power
    # is applied, only add whole turns. The rest begins at this bit of the table:
    start = b.sub(exponent, llvm_ir.i64(bias + stored + 2 - 64))
    start = b.select(b.icmp("slt", start, llvm_ir.i64(0)), llvm_ir.i64(0), start)
    word, shift = b.binary("lshr", start, llvm_ir.i64(6)), b.binary("and", start, llvm_ir.i64(63))
    table = b.constant_array("i64", [str(w) for w in _TWO_OVER_PI_WORDS])
    words = [b.load("i64", b.gep("i64", table, b.add(word, llvm_ir.i64(i))), 8) for i in range(4)]
    # Most significant first.
    window = [b.call("i64", "llvm.fshl.i64", [words[i], words[i + 1], shift]) for i in range(3)]
    low_high, low_word = _multiply_wide(b, mantissa, window[2])
    middle_high, middle_low = _multiply_wide(b, mantissa, window[1])
    middle_word = b.binary("add", middle_low, low_high)
    carry = b.cast("zext", b.icmp("ult", middle_word, low_high), "i64")
    top = b.binary("add", b.binary("mul", mantissa, window[0]), middle_high)
    top = b.binary("add", top, carry)
    # The product modulo 4 is (top, middle, low) with 2 bits before the point: round to nearest.
    quadrant = b.binary("lshr", b.binary("add", top, llvm_ir.i64(1 << 61)), llvm_ir.i64(62))
    two = llvm_ir.i64(2)
    fraction = b.call("i64", "llvm.fshl.i64", [top, middle_word, two])  # signed, times 2^-64
    rest = b.call("i64", "llvm.fshl.i64", [middle_word, low_word, two])

    def piece(value: Value, from_: int, width: int, scale: int) -> Value:
        """Some bits of a word as a floating-point number, exactly; the topmost with the sign."""
        top_piece = from_ + width == 64 and value is fraction
        value = b.binary("ashr" if top_piece else "lshr", value, llvm_ir.i64(from_))
        if from_ + width < 64:
            value = b.binary("and", value, llvm_ir.i64((1 << width) - 1))
        return m.mul(b.cast("sitofp", value, scalar), 2.0 ** (from_ + scale))

    if m.is_double:
        f0, f1 = piece(fraction, 32, 32, -64), piece(fraction, 0, 32, -64)
        small = m.add(piece(rest, 32, 32, -128), piece(rest, 0, 32, -128))
    else:
        f0, f1 = piece(fraction, 40, 24, -64), piece(fraction, 20, 20, -64)
        small = m.add(piece(fraction, 0, 20, -64), piece(rest, 44, 20, -128))
    first = m.two_sum(f0, f1)
    f = m.two_sum(first.high, m.add(first.low, small))
    high, low_part = (c / 2 for c in _PI[scalar])
    r = m.pair_multiply(f, m.pair_constant(high, low_part))
    negative = m.compare("olt", x, 0.0)
    r_high = m.select(negative, m.negate(r.high), r.high)
    r_low = m.select(negative, m.negate(r.low), r.low)
    quadrant = b.select(negative, b.sub(llvm_ir.i64(0), quadrant), quadrant)
    b.ret(b.aggregate([r_high, r_low, quadrant]))
    b.finish()
    return name


def _multiply_wide(b: Builder, x: Value, y: Value) -> tuple[Value, Value]:
    """The high and the low word of a product of two i64, in halves of 32 bits: not every target has i128."""
    mask, by_32 = llvm_ir.i64(0xFFFFFFFF), llvm_ir.i64(32)
    x0, x1 = b.binary("and", x, mask), b.binary("lshr", x, by_32)
    y0, y1 = b.binary("and", y, mask), b.binary("lshr", y, by_32)
    cross = b.binary(
        "add", b.binary("mul", x1, y0), b.binary("lshr", b.binary("mul", x0, y0), by_32)
    )
    other = b.binary("add", b.binary("mul", x0, y1), b.binary("and", cross, mask))
    high = b.binary("add", b.binary("mul", x1, y1), b.binary("lshr", cross, by_32))
    return b.binary("add", high, b.binary("lshr", other, by_32)), b.binary("mul", x, y)


def _reduce_lane(m: Arithmetic, x: Value) -> list[Value]:
    """r high, r low and quadrant of one finite number, in the scalar types of m."""
    b = m.builder
    scalar = "double" if m.is_double or m.target.has_double else "float"
    if x.type != scalar:
        x = b.cast("fpext", x, scalar)
    types = _reduced_types(scalar)
    name = _define_reduce_large(b.module, m.target, scalar)
    high, low, quadrant = b.elements(b.call(llvm_ir.aggregate_type(types), name, [x]), types)
    if m.is_double:
        return [high, low, quadrant]
    if scalar == "double":
        rounded = b.cast("fptrunc", high, "float")
        rest = b.binary("fsub", high, b.cast("fpext", rounded, "double"))
        high, low = rounded, b.cast("fptrunc", rest, "float")
    return [high, low, b.cast("trunc", quadrant, "i32")]


def _replace_large(m: Arithmetic, x: Value, limit: float, fast: _Reduced) -> _Reduced:
    """``fast`` with the lanes above ``limit`` reduced exactly.

    The branch is in a function that is always inlined, so that what is written here is straight-line
    code, which callers may put before any instruction.
    """
    b = m.builder
    values = [fast.r.high, fast.r.low, fast.quadrant]
    types = [v.type for v in values]
    result = llvm_ir.aggregate_type(types)
    name = f"tripont.replace_large.{llvm_ir.mangle(m.type)}"
    if name not in b.module.functions:
        _define_replace_large(b.module, m.target, name, m.type, limit, values, result)
    high, low, quadrant = b.elements(b.call(result, name, [x, *values]), types)
    return _Reduced(quadrant, Pair(high, low))


def _define_replace_large(
    module: llvm_ir.Module,
    target: Target,
    name: str,
    type_: str,
    limit: float,
    fast: list[Value],
    result: str,
) -> None:
    b = Builder(
        module,
        name,
        [type_, *(v.type for v in fast)],
        result,
        linkage="internal",
        attributes=f"{target.function_attributes} alwaysinline",
    )
    m = Arithmetic(b, target, type_)
    x, *values = b.arguments
    magnitude = m.absolute(x)
    large = m.both(m.compare("ogt", magnitude, limit), m.compare("olt", magnitude, INFINITY))
    any_large = b.any_lane(large)
    before = b.block
    slow_block, join = b.new_label("large"), b.new_label("reduced")
    b.branch_if(any_large, slow_block, join)
    b.start_block(slow_block)
    if m.lanes == 1:
        slow = _reduce_lane(m, x)
    else:
        # Lanes that are not large give rubbish here, and are not chosen.
        start = [llvm_ir.poison(v.type) for v in values]
        stop = llvm_ir.i64(m.lanes)
        with b.loop_carrying(llvm_ir.i64(0), stop, 1, start) as (i, carried, slow):
            parts = _reduce_lane(m, b.extract(x, i))
            carried[:] = [b.insert(v, part, i) for v, part in zip(carried, parts, strict=True)]
    chosen = [b.select(large, s, f) for s, f in zip(slow, values, strict=True)]
    end = b.block
    b.branch(join)
    b.start_block(join)
    merged = [b.phi([(f, before), (c, end)]) for f, c in zip(values, chosen, strict=True)]
    b.ret(b.aggregate(merged))
    b.finish()


def _reduce_double(m: Arithmetic, x: Value) -> _Reduced:
    n, quadrant = m.round(x, _TWO_OVER_PI)
    first = m.fnma(n, _PI_OVER_2[0], x)  # exact
    r = m.two_sum(first, m.mul(n, -_PI_OVER_2[1]))  # the product is exact
    tail = m.two_sum(r.low, m.mul(n, -_PI_OVER_2[2]))  # the product is exact
    r = m.two_sum(r.high, tail.high)
    return _Reduced(quadrant, Pair(r.high, m.add(r.low, m.fnma(n, _PI_OVER_2[3], tail.low))))


def _reduce_float(m: Arithmetic, x: Value) -> _Reduced:
    """With fused multiply-add: every word of pi/2 may have all 24 bits."""
    n, quadrant = m.round(x, _TWO_OVER_PI)
    first = m.fnma(n, _PI_OVER_2_FLOAT[0], x)  # exact
    product = m.two_product(n, m.constant(_PI_OVER_2_FLOAT[1]))
    r = m.fast_two_sum(first, m.negate(product.high))
    low = m.fnma(n, _PI_OVER_2_FLOAT[2], m.sub(r.low, product.low))
    return _Reduced(quadrant, Pair(r.high, low))


def _reduce_float_in_double(m: Arithmetic, x: Value) -> _Reduced:
    b = m.builder
    d = Arithmetic(b, m.target, llvm_ir.vector("double", m.lanes))
    wide = b.cast("fpext", x, d.type)
    n, quadrant = d.round(wide, _TWO_OVER_PI)
    r = d.fnma(n, _PI_OVER_2[1] + _PI_OVER_2[2], d.fnma(n, _PI_OVER_2[0], wide))
    high = b.cast("fptrunc", r, m.type)
    low = b.cast("fptrunc", d.sub(r, b.cast("fpext", high, d.type)), m.type)
    return _Reduced(b.cast("trunc", quadrant, m.integer_type), Pair(high, low))


def _reduce(m: Arithmetic, x: Value) -> _Reduced:
    """Infinities and NaN give r = NaN."""
    if m.is_double:
        return _replace_large(m, x, _LARGE, _reduce_double(m, x))
    if m.has_fma:
        return _replace_large(m, x, _LARGE_FLOAT, _reduce_float(m, x))
    return _replace_large(m, x, _LARGE, _reduce_float_in_double(m, x))


def _series(m: Arithmetic, r: Pair, choose: Callable[..., Value]) -> Pair:
    """sin r or cos r in two words, |r| <= pi/4; ``choose(sine's, cosine's)`` says which.

    Both are b + b z (c + z p(z)): b = h, c = -1/6 and b = 1, c = -1/2. All but p has two words. r's own low word comes
    in by the derivative.
    """
    h, low = r
    z = m.two_product(h, h)
    p = choose(m.polynomial(z.high, _SIN[m.scalar]), m.polynomial(z.high, _COS[m.scalar]))
    sixth = _MINUS_SIXTH[m.scalar]
    c = choose(m.constant(sixth[0]), m.constant(-0.5))
    t = m.two_product(z.high, p)
    q = m.fast_two_sum(c, t.high)
    q_low = m.fma(z.low, p, t.low)
    q_low = m.add(q.low, m.add(q_low, choose(m.constant(sixth[1]), m.constant(0.0))))
    b = choose(h, m.constant(1.0))
    u = m.pair_product(m.pair_scale(z, b), Pair(q.high, q_low))
    cosine = m.fma(z.high, m.fma(z.high, 1 / 24, -0.5), 1.0)
    derivative = choose(cosine, m.mul(h, m.fma(z.high, 1 / 6, -1.0)))
    s = m.fast_two_sum(b, u.high)
    return Pair(s.high, m.add(s.low, m.fma(low, derivative, u.low)))


def _sine(builder: Builder, target: Target, x: Value, turn: int) -> Value:
    """sin(x + turn pi/2)."""
    m = Arithmetic(builder, target, x.type)
    quadrant, r = _reduce(m, x)
    if turn:
        quadrant = m.int_add(quadrant, turn)
    odd = m.int_compare("ne", m.int_and(quadrant, 1), 0)
    ordinary = is_ordinary(m, x, odd=True)
    r = Pair(m.select(ordinary, r.high, 0.0), r.low)
    value = m.pair_sum(_series(m, r, lambda sine, cosine: m.select(odd, cosine, sine)))
    sign = m.shift_left(m.int_and(quadrant, 2), m.format.bits - 2)
    value = m.from_bits(m.int_xor(m.bits(value), sign))
    return value if turn else m.select(ordinary, value, x)


def sin(builder: Builder, target: Target, x: Value) -> Value:
    """The sine of any finite number, however large. float, double: below 0.52 ulp."""
    return _sine(builder, target, x, 0)


def cos(builder: Builder, target: Target, x: Value) -> Value:
    """The cosine of any finite number. float, double: below 0.52 ulp."""
    return _sine(builder, target, x, 1)


def sine_and_cosine(m: Arithmetic, x: Value) -> tuple[Pair, Pair]:
    """sin x and cos x in two words: both of them, or both of them negated."""
    quadrant, r = _reduce(m, x)
    sine = m.fast_two_sum(*_series(m, r, lambda sine, _: sine))
    cosine = m.fast_two_sum(*_series(m, r, lambda _, cosine: cosine))
    odd = m.int_compare("ne", m.int_and(quadrant, 1), 0)
    return m.pair_select(odd, m.pair_negate(cosine), sine), m.pair_select(odd, sine, cosine)


def tan(builder: Builder, target: Target, x: Value) -> Value:
    """The tangent of any finite number. float, double: below 0.53 ulp."""
    m = Arithmetic(builder, target, x.type)
    ordinary = is_ordinary(m, x, odd=True)
    value = m.pair_sum(m.pair_quotient(*sine_and_cosine(m, m.select(ordinary, x, 0.0))))
    return m.select(ordinary, value, x)
