"""Quantized types: every operation is defined as dequantize, the operation on floats, quantize.

Arrays of quantized types are arrays of their storage type at the API. The judge is the specification's definition, in
the expressed type.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tripont.core.compiler.ir import dtypes
from tripont.core.compiler.ir.dtypes import DType

from tests.conformance.programs import element, function, tensor
from tests.conformance.registry import case
from tests.conformance.values import ordinary

F32 = dtypes.F32


@dataclass(frozen=True)
class Quantized:
    """A quantized element type; ``axis`` is -1 for one scale."""

    storage: DType
    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    axis: int = -1
    expressed: DType = F32

    @property
    def limits(self) -> tuple[int, int]:
        bits = self.storage.bits
        if not self.storage.is_signed:
            return 0, 2**bits - 1
        return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1

    def tensor(self, *dims: int) -> str:
        pairs = [f"{s}:{z}" for s, z in zip(self.scales, self.zero_points, strict=True)]
        where = f":{self.axis}, {{{', '.join(pairs)}}}" if self.axis >= 0 else f", {pairs[0]}"
        sign = "u" if not self.storage.is_signed else "i"
        kind = f"!quant.uniform<{sign}{self.storage.bits}:{element(self.expressed)}{where}>"
        return f"tensor<{''.join(f'{d}x' for d in dims)}{kind}>"

    def _spread(self, values: Sequence[float], rank: int) -> np.ndarray:
        dims = [-1 if n == self.axis else 1 for n in range(rank)] if self.axis >= 0 else [1] * rank
        return np.array(values).astype(self.expressed.numpy).reshape(dims)

    def dequantize(self, x: np.ndarray) -> np.ndarray:
        wide = x.astype(np.int64) - self._spread(self.zero_points, x.ndim).astype(np.int64)
        return wide.astype(self.expressed.numpy) * self._spread(self.scales, x.ndim)

    def quantize(self, x: Any) -> np.ndarray:
        x = np.asarray(x).astype(self.expressed.numpy)
        scaled = x / self._spread(self.scales, x.ndim) + self._spread(self.zero_points, x.ndim)
        low, high = (self.expressed.numpy.type(v) for v in self.limits)
        clamped = np.minimum(np.maximum(scaled, low), high)
        rounded = np.rint(clamped.astype(np.float64)).astype(np.int64)
        return np.clip(rounded, *self.limits).astype(self.storage.numpy)


S8 = Quantized(dtypes.S8, (0.5,), (1,))
OTHER = Quantized(dtypes.S8, (0.25,), (-3,))
PLAIN = Quantized(dtypes.S8, (0.125,), (0,))
WIDE = Quantized(dtypes.S32, (0.0625,), (0,))
U8 = Quantized(dtypes.U8, (0.3,), (128,))
# What MLIR's pass would take for signed numbers, and what it does not take.
_REFUSED = {
    "u8": "unsigned storage",
    "bf16": "uniform_quantize(bf16[3,4])",
    "f16": "uniform_quantize(f16[3,4])",
}
_DIMS = (3, 4)


def _stored(kind: Quantized, dims: tuple[int, ...], seed: str = "") -> np.ndarray:
    return ordinary(kind.storage, dims, seed)


# ------------------------------------------------------------------------------------------ to and from floats

for _label, _kind in {
    "s8": S8,
    "u8": U8,
    "f16": Quantized(dtypes.S8, (0.25,), (3,), -1, dtypes.F16),
    "bf16": Quantized(dtypes.S8, (0.5,), (1,), -1, dtypes.BF16),
    "s4": Quantized(dtypes.S4, (0.5,), (-2,)),
    "s16": Quantized(dtypes.S16, (0.01,), (100,)),
    "s32": WIDE,
    "per_axis": Quantized(dtypes.S8, (0.5, 0.25, 2.0, 0.1), (0, 5, -7, 1), 1),
}.items():
    _x = ordinary(_kind.expressed, _DIMS)
    _x[0, :] = [1e4, -1e4, 0, np.inf]
    _f, _q = tensor(_kind.expressed, *_DIMS), _kind.tensor(*_DIMS)
    case("uniform_quantize", _label, _kind.storage, function([_f], [_q], f"%r = stablehlo.uniform_quantize %0 : ({_f}) -> {_q}"),
         [_x], judge=_kind.quantize, refused=_REFUSED.get(_label, ""))  # fmt: skip
    case("uniform_dequantize", _label, _kind.expressed, function([_q], [_f], f"%r = stablehlo.uniform_dequantize %0 : ({_q}) -> {_f}"),
         [_stored(_kind, _DIMS)], judge=_kind.dequantize,
         refused="unsigned storage" if _label == "u8" else "!quant" if _label in _REFUSED else "")  # fmt: skip
_from, _to = S8.tensor(*_DIMS), OTHER.tensor(*_DIMS)
case("uniform_quantize", "again", dtypes.S8, function([_from], [_to], f"%r = stablehlo.uniform_quantize %0 : ({_from}) -> {_to}"),
     [_stored(S8, _DIMS)], judge=lambda x: OTHER.quantize(S8.dequantize(x)))  # fmt: skip

# ------------------------------------------------------------------------------------------------- elementwise


def add_elementwise(op: str, f: Callable[..., Any], *kinds: Quantized) -> None:
    """The last of ``kinds`` is the result's."""
    *given, result = kinds
    types = [k.tensor(*_DIMS) for k in given]
    to = result.tensor(*_DIMS)
    names = ", ".join(f"%{n}" for n in range(len(given)))
    case(op, "quantized", result.storage, function(types, [to], f'%r = "stablehlo.{op}"({names}) : ({", ".join(types)}) -> {to}'),
         [_stored(k, _DIMS, str(n)) for n, k in enumerate(given)],
         judge=lambda *a: result.quantize(f(*[k.dequantize(x) for k, x in zip(given, a, strict=True)])))  # fmt: skip


for _op, _judge in (
    ("add", np.add),
    ("subtract", np.subtract),
    ("multiply", np.multiply),
    ("maximum", np.maximum),
    ("minimum", np.minimum),
):
    add_elementwise(_op, _judge, S8, OTHER, PLAIN)
for _op, _judge in (
    ("abs", np.abs),
    ("negate", np.negative),
    ("tanh", np.tanh),
    ("floor", np.floor),
    ("exponential", np.exp),
    ("sine", np.sin),
):
    add_elementwise(_op, _judge, S8, OTHER)
add_elementwise("logistic", lambda x: 1 / (1 + np.exp(-x)), S8, OTHER)
_b = tensor("pred", *_DIMS)
case("compare", "quantized", dtypes.S8, function([_from, _to], [_b], f"%r = stablehlo.compare LT, %0, %1 : ({_from}, {_to}) -> {_b}"),
     [_stored(S8, _DIMS), _stored(OTHER, _DIMS, "b")], judge=lambda a, b: S8.dequantize(a) < OTHER.dequantize(b))  # fmt: skip

# ------------------------------------------------------------------------------------------------ data movement

_flat, _turned = S8.tensor(12), S8.tensor(4, 3)
case("reshape", "quantized", dtypes.S8, function([_from], [_flat], f"%r = stablehlo.reshape %0 : ({_from}) -> {_flat}"),
     [_stored(S8, _DIMS)], judge=lambda a: a.reshape(12))  # fmt: skip
case("transpose", "quantized", dtypes.S8, function([_from], [_turned], f"%r = stablehlo.transpose %0, dims = [1, 0] : ({_from}) -> {_turned}"),
     [_stored(S8, _DIMS)], judge=np.transpose)  # fmt: skip
_row = S8.tensor(1, 4)
case("slice", "quantized", dtypes.S8, function([_from], [_row], f"%r = stablehlo.slice %0 [1:2, 0:4] : ({_from}) -> {_row}"),
     [_stored(S8, _DIMS)], judge=lambda a: a[1:2])  # fmt: skip
_two = S8.tensor(6, 4)
case("concatenate", "quantized", dtypes.S8, function([_from, _from], [_two], f"%r = stablehlo.concatenate %0, %1, dim = 0 : ({_from}, {_from}) -> {_two}"),
     [_stored(S8, _DIMS), _stored(S8, _DIMS, "b")], judge=lambda a, b: np.concatenate([a, b]))  # fmt: skip
_pair = S8.tensor(2)
case("constant", "quantized", dtypes.S8, function([], [_pair], f"%r = stablehlo.constant() <{{value = dense<[1, -2]> : tensor<2xi8>}}> : () -> {_pair}"),
     [], judge=lambda: np.array([1, -2], np.int8))  # fmt: skip

# ------------------------------------------------------------------------------------------------- contractions

_AXIS = Quantized(dtypes.S8, (0.5, 0.25), (0, 0), 1)
for _label, _rhs, _result in (
    ("tensor", PLAIN, WIDE),
    ("axis", _AXIS, Quantized(dtypes.S32, (0.25, 0.125), (0, 0), 1)),
    ("narrow", PLAIN, OTHER),
):
    _l, _r, _o = S8.tensor(3, 4), _rhs.tensor(4, 2), _result.tensor(3, 2)
    case("dot_general", f"quantized_{_label}", _result.storage,
         function([_l, _r], [_o], f"%r = stablehlo.dot_general %0, %1, contracting_dims = [1] x [0] : ({_l}, {_r}) -> {_o}"),
         [_stored(S8, (3, 4)), _stored(_rhs, (4, 2), "b")],
         judge=lambda a, b, k=_rhs, o=_result: o.quantize(S8.dequantize(a) @ k.dequantize(b)))  # fmt: skip
# Floats with quantized weights.
_l, _r, _o = tensor(F32, 3, 4), _AXIS.tensor(4, 2), tensor(F32, 3, 2)
case("dot_general", "quantized_weights", F32, function([_l, _r], [_o], f"%r = stablehlo.dot_general %0, %1, contracting_dims = [1] x [0] : ({_l}, {_r}) -> {_o}"),
     [ordinary(F32, (3, 4)), _stored(_AXIS, (4, 2))], judge=lambda a, b: a.astype(float) @ _AXIS.dequantize(b), limit=4,
     scale=lambda a, b: np.abs(a) @ np.abs(_AXIS.dequantize(b)))  # fmt: skip
_l, _r, _o = S8.tensor(2, 6, 3), PLAIN.tensor(2, 3, 5), WIDE.tensor(2, 5, 5)
case("convolution", "quantized", dtypes.S32, function([_l, _r], [_o],
     '%r = "stablehlo.convolution"(%0, %1) <{dimension_numbers = #stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]>, feature_group_count = 1 : i64,'
     f" batch_group_count = 1 : i64}}> : ({_l}, {_r}) -> {_o}"), [_stored(S8, (2, 6, 3)), _stored(PLAIN, (2, 3, 5))],
     judge=lambda x, k: WIDE.quantize(sum(S8.dequantize(x)[:, n : n + 5] @ PLAIN.dequantize(k)[n] for n in (0, 1))))  # fmt: skip
