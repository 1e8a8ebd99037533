"""Dot products, convolutions, linear algebra and Fourier transforms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from tripont.core.compiler.ir import dtypes

from tests.conformance.programs import dense, function, tensor
from tests.conformance.registry import case
from tests.conformance.values import ordinary

F32, F64, S32 = dtypes.F32, dtypes.F64, dtypes.S32
_NUMBERS = (F32, F64, dtypes.F16, dtypes.BF16, S32, dtypes.S64, dtypes.S8, dtypes.U8, dtypes.U32, dtypes.S4, dtypes.C64, dtypes.C128,
            dtypes.F8E4M3FN, dtypes.F8E5M2)  # fmt: skip


def _wide(dtype: Any) -> Any:
    if dtype.is_complex:
        return np.clongdouble
    return np.int64 if dtype.is_integer else np.longdouble if dtype is F64 else np.float64


def _narrow(values: Any, dtype: Any) -> Any:
    """Integers wrap."""
    if dtype.is_integer and dtype.bits < 8:
        half = 1 << (dtype.bits - 1)
        values = (values + half) % (2 * half) - half if dtype.is_signed else values % (2 * half)
    with np.errstate(all="ignore"):
        return np.asarray(values).astype(dtype.numpy)


def _limit(dtype: Any) -> float:
    return 0 if dtype.is_integer else 2 if dtype.bits <= 16 else 8


# ------------------------------------------------------------------------------------------------------ dot_general

# name: (lhs dims, rhs dims, batch, contracting (lhs, rhs), einsum)
_DOTS: dict[str, Any] = {
    "matrix": ((5, 7), (7, 6), ((), ()), ((1,), (0,)), "ij,jk->ik"),
    "transposed": ((7, 5), (6, 7), ((), ()), ((0,), (1,)), "ji,kj->ik"),
    "batched": ((3, 5, 7), (3, 7, 6), ((0,), (0,)), ((2,), (1,)), "bij,bjk->bik"),
    "vector": ((7,), (7,), ((), ()), ((0,), (0,)), "i,i->"),
    "outer": ((5,), (6,), ((), ()), ((), ()), "i,j->ij"),
    "two_contracted": ((4, 3, 5), (5, 6, 3), ((), ()), ((1, 2), (2, 0)), "iab,bka->ik"),
    "batch_inside": ((5, 3, 7), (7, 6, 3), ((1,), (2,)), ((2,), (0,)), "ibj,jkb->bik"),
    "nothing_to_sum": ((5, 0), (0, 6), ((), ()), ((1,), (0,)), "ij,jk->ik"),
    "empty": ((0, 7), (7, 6), ((), ()), ((1,), (0,)), "ij,jk->ik"),
    "large": ((70, 130), (130, 90), ((), ()), ((1,), (0,)), "ij,jk->ik"),
}
for _dtype in _NUMBERS:
    for _label, (_l, _r, _batch, _contract, _einsum) in _DOTS.items():
        _out = np.einsum(_einsum, np.zeros(_l), np.zeros(_r)).shape
        for _result in dict.fromkeys(  # each once, always in this order
            (
                _dtype,
                S32 if _dtype.is_integer and _dtype.bits <= 8 else _dtype,
                F32 if _dtype.is_float and _dtype.bits <= 16 else _dtype,
            )
        ):
            _tl, _tr, _to = tensor(_dtype, *_l), tensor(_dtype, *_r), tensor(_result, *_out)
            _dims = (
                f"batching_dims = {list(_batch[0])} x {list(_batch[1])}, " if _batch[0] else ""
            ) + f"contracting_dims = {list(_contract[0])} x {list(_contract[1])}"
            _w = _wide(_dtype)
            case("dot_general", _label + (f"_to_{_result.name}" if _result is not _dtype else ""), _dtype,
                 function([_tl, _tr], [_to], f"%r = stablehlo.dot_general %0, %1, {_dims} : ({_tl}, {_tr}) -> {_to}"),
                 [ordinary(_dtype, _l), ordinary(_dtype, _r, "rhs")],
                 judge=lambda a, b, e=_einsum, w=_w, t=_result: _narrow(np.einsum(e, a.astype(w), b.astype(w)), t),
                 limit=_limit(_result),
                 scale=None if _result.is_integer else
                 lambda a, b, e=_einsum: 1 + np.einsum(e, np.abs(a.astype(np.clongdouble)), np.abs(b.astype(np.clongdouble))).real)  # fmt: skip
_tl, _tr, _to = tensor(F32, 5, 7), tensor(F32, 7, 6), tensor(F32, 5, 6)
case("dot", "", F32, function([_tl, _tr], [_to], f"%r = stablehlo.dot %0, %1 : ({_tl}, {_tr}) -> {_to}"),
     [ordinary(F32, (5, 7)), ordinary(F32, (7, 6))], judge=lambda a, b: a.astype(float) @ b, limit=4, scale=lambda a, b: np.abs(a) @ np.abs(b))  # fmt: skip
for _label, _config, _l, _r in (("matrix", "ij,jk->ik", (5, 7), (7, 6)), ("batched", "bij,bjk->bki", (2, 5, 7), (2, 7, 6)),
                                ("summed", "ij,jk->i", (5, 7), (7, 6))):  # fmt: skip
    _out = np.einsum(_config, np.zeros(_l), np.zeros(_r)).shape
    _tl, _tr, _to = tensor(F32, *_l), tensor(F32, *_r), tensor(F32, *_out)
    case("einsum", _label, F32, function([_tl, _tr], [_to], f'%r = stablehlo.einsum %0, %1, config = "{_config}" : ({_tl}, {_tr}) -> {_to}'),
         [ordinary(F32, _l), ordinary(F32, _r)], judge=lambda a, b, c=_config: np.einsum(c, a.astype(float), b.astype(float)), limit=16,
         scale=lambda a, b, c=_config: np.einsum(c, np.abs(a), np.abs(b)))  # fmt: skip
for _label, _config, _l in (
    ("transpose", "ij->ji", (3, 4)),
    ("sum", "ij->j", (3, 4)),
    ("diagonal", "ii->i", (3, 3)),
    ("trace", "ii->", (3, 3)),
):
    _out = np.einsum(_config, np.zeros(_l)).shape
    _tl, _to = tensor(F32, *_l), tensor(F32, *_out)
    case("unary_einsum", _label, F32, function([_tl], [_to], f'%r = "stablehlo.unary_einsum"(%0) <{{einsum_config = "{_config}"}}> : ({_tl}) -> {_to}'),
         [ordinary(F32, _l)], judge=lambda a, c=_config: np.einsum(c, a.astype(float)), limit=4, scale=lambda a: np.float64(4))  # fmt: skip

# ------------------------------------------------------------------------------------------------------ convolution

Pair = tuple[int, int]


@dataclass(frozen=True)
class Convolution:
    """One of two dimensions: [batch, height, width, features] with [height, width, features, output features]."""

    input: tuple[int, int, int, int] = (2, 6, 7, 3)
    kernel: tuple[int, int, int, int] = (3, 2, 3, 4)
    strides: Pair = (1, 1)
    padding: tuple[Pair, Pair] = ((0, 0), (0, 0))
    input_dilation: Pair = (1, 1)
    kernel_dilation: Pair = (1, 1)
    reversed: bool = False
    feature_groups: int = 1
    batch_groups: int = 1

    def __call__(self, x: Any, k: Any) -> Any:
        """By definition."""
        if self.reversed:
            k = k[::-1, ::-1]
        n, h, w, c = x.shape
        base, dilation, strides = self.input_dilation, self.kernel_dilation, self.strides
        big = np.zeros((n, (h - 1) * base[0] + 1, (w - 1) * base[1] + 1, c), x.dtype)
        big[:, :: base[0], :: base[1]] = x
        big = np.pad(big, ((0, 0), *[(max(0, a), max(0, b)) for a, b in self.padding], (0, 0)))
        crop = [
            slice(max(0, -a), big.shape[d + 1] - max(0, -b))
            for d, (a, b) in enumerate(self.padding)
        ]
        big = big[:, crop[0], crop[1]]
        kh, kw, kc, ko = k.shape
        out = [
            (big.shape[d + 1] - ((s - 1) * dilation[d] + 1)) // strides[d] + 1
            for d, s in enumerate((kh, kw))
        ]
        batch_size = n // self.batch_groups
        result = np.zeros((batch_size, *out, ko), x.dtype)
        for o in range(ko):
            group = o // (ko // self.feature_groups)
            batch = o // (ko // self.batch_groups)
            part = big[
                batch * batch_size : (batch + 1) * batch_size, ..., group * kc : (group + 1) * kc
            ]
            for i in range(out[0]):
                for j in range(out[1]):
                    y0, x0 = i * strides[0], j * strides[1]
                    window = part[
                        :,
                        y0 : y0 + (kh - 1) * dilation[0] + 1 : dilation[0],
                        x0 : x0 + (kw - 1) * dilation[1] + 1 : dilation[1],
                    ]
                    result[:, i, j, o] = (window * k[..., o]).sum((1, 2, 3))
        return result

    def text(self, op: str, dtype: Any, result: Any) -> str:
        """The program of the ``op`` convolution or dynamic_conv."""
        out = self(np.zeros(self.input), np.zeros(self.kernel)).shape
        tx, tk, to = tensor(dtype, *self.input), tensor(dtype, *self.kernel), tensor(result, *out)
        reverses = str(self.reversed).lower()
        attributes = (
            f"window_strides = {dense(self.strides)}, lhs_dilation = {dense(self.input_dilation)}, "
        )
        attributes += f"rhs_dilation = {dense(self.kernel_dilation)}, "
        attributes += f"window_reversal = array<i1: {reverses}, {reverses}>, "
        attributes += (
            "dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>, "
        )
        attributes += f"feature_group_count = {self.feature_groups} : i64, batch_group_count = {self.batch_groups} : i64"
        pad = f"dense<{[list(p) for p in self.padding]}> : tensor<2x2xi64>"
        if op == "dynamic_conv":
            body = (
                f"%p = stablehlo.constant {pad}\n"
                + f'%r = "stablehlo.dynamic_conv"(%0, %1, %p) <{{{attributes}}}> : ({tx}, {tk}, tensor<2x2xi64>) -> {to}'
            )
        else:
            body = f'%r = "stablehlo.convolution"(%0, %1) <{{{attributes}, padding = {pad}}}> : ({tx}, {tk}) -> {to}'
        return function([tx, tk], [to], body)


_CONVOLUTIONS: dict[str, Convolution] = {
    "plain": Convolution(),
    "strided": Convolution(strides=(2, 3), padding=((1, 1), (0, 2))),
    "dilated": Convolution(padding=((2, 1), (1, 1)), input_dilation=(1, 2), kernel_dilation=(2, 1)),
    "negative": Convolution(padding=((-1, 0), (1, -2))),
    "reversed": Convolution(reversed=True),
    "grouped": Convolution((2, 6, 7, 4), (3, 2, 2, 6), padding=((1, 1), (1, 0)), feature_groups=2),
    "depthwise": Convolution(
        (2, 6, 7, 4), (3, 3, 1, 8), padding=((1, 1), (1, 1)), feature_groups=4
    ),
    "batch_groups": Convolution((4, 6, 7, 3), batch_groups=2),
    # What no window reaches because of the strides is more than the dilation: oneDNN's gradient of weights refuses it.
    "batch_groups_strided": Convolution((4, 6, 7, 3), strides=(2, 3), batch_groups=2),
    "no_features": Convolution((2, 6, 7, 0), (3, 2, 0, 4)),
    "no_batch": Convolution((0, 6, 7, 3)),
}

for _op, _dtypes in (
    ("convolution", (F32, F64, dtypes.F16, dtypes.BF16, S32, dtypes.S8, dtypes.C64)),
    ("dynamic_conv", (F32,)),
):
    for _dtype in _dtypes:
        for _label, _conv in _CONVOLUTIONS.items():
            _result = S32 if _dtype is dtypes.S8 else _dtype
            _w = _wide(_dtype)
            case(_op, _label, _dtype, _conv.text(_op, _dtype, _result), [ordinary(_dtype, _conv.input), ordinary(_dtype, _conv.kernel, "kernel")],
                 judge=lambda a, b, conv=_conv, w=_w: conv(a.astype(w), b.astype(w)), limit=_limit(_dtype),
                 scale=None if _dtype.is_integer else lambda a, b, conv=_conv: 1 + conv(np.abs(a.astype(np.clongdouble)), np.abs(b.astype(np.clongdouble))).real)  # fmt: skip

# The padding comes from the program: computed of constants, or not.
_conv = _CONVOLUTIONS["strided"]
_text = _conv.text("dynamic_conv", F32, F32).replace("%p = ", "%c = ")
_x, _k = ordinary(F32, _conv.input), ordinary(F32, _conv.kernel, "kernel")
case("dynamic_conv", "computed_padding", F32, _text.replace("%r = ", "%p = stablehlo.maximum %c, %c : tensor<2x2xi64>\n%r = "), [_x, _k],
     judge=lambda a, b, conv=_conv: conv(a.astype(np.float64), b.astype(np.float64)), limit=_limit(F32),
     scale=lambda a, b, conv=_conv: 1 + conv(np.abs(a.astype(np.float64)), np.abs(b.astype(np.float64))))  # fmt: skip
case("dynamic_conv", "unknown_padding", F32,
     _text.replace("%r = ", "%s = stablehlo.slice %1 [0:2, 0:2, 0:1, 0:1] : (tensor<3x2x3x4xf32>) -> tensor<2x2x1x1xf32>\n"
                   "%t = stablehlo.reshape %s : (tensor<2x2x1x1xf32>) -> tensor<2x2xf32>\n"
                   "%p = stablehlo.convert %t : (tensor<2x2xf32>) -> tensor<2x2xi64>\n%r = "), [_x, _k],
     refused="operand 2 gives a shape or bounds, and is not a constant")  # fmt: skip

# --------------------------------------------------------------------------------------------- linear algebra and fft

for _dtype in (dtypes.BF16, dtypes.F16, F32, F64, dtypes.C64, dtypes.C128):
    for _n, _batch in ((1, ()), (5, (2,)), (33, ()), (0, (2,))):
        _a = ordinary(_dtype, (*_batch, _n, _n)).astype(np.complex128)
        _a = _a @ np.swapaxes(_a, -1, -2).conj() + _n * np.eye(_n)
        _a = (_a if _dtype.is_complex else _a.real).astype(_dtype.numpy)
        _t = tensor(_dtype, *_batch, _n, _n)
        for _lower in (True, False):

            def _cholesky(a: Any, lower: bool = _lower) -> Any:
                factor = np.linalg.cholesky(
                    a.astype(np.complex128 if a.dtype.kind == "c" else np.float64)
                )
                return factor if lower else np.swapaxes(factor, -1, -2).conj()

            case("cholesky", f"{_n}_{'lower' if _lower else 'upper'}", _dtype,
                 function([_t], [_t], f"%r = stablehlo.cholesky %0, lower = {str(_lower).lower()} : {_t}"), [_a],
                 judge=_cholesky, limit=64, scale=lambda a: np.float64(np.sqrt(np.abs(a).max()) if a.size else 1))  # fmt: skip
    for _n, _m, _left in ((5, 3, True), (5, 3, False), (17, 2, True), (1, 1, True)):
        for _lower in (True, False):
            for _how in ("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"):
                for _unit in (True, False):
                    _a = ordinary(_dtype, (2, _n, _n)) * _dtype.numpy.type(0.2) + 2 * np.eye(
                        _n, dtype=_dtype.numpy
                    )
                    _b = ordinary(_dtype, (2, _n, _m) if _left else (2, _m, _n), "b")
                    _ta, _tb = tensor(_dtype, *_a.shape), tensor(_dtype, *_b.shape)

                    def _solve(
                        a: Any,
                        b: Any,
                        lower: bool = _lower,
                        how: str = _how,
                        unit: bool = _unit,
                        left: bool = _left,
                    ) -> Any:
                        wide = np.complex128 if a.dtype.kind == "c" else np.float64
                        a, b = a.astype(wide), b.astype(wide)
                        a = np.tril(a) if lower else np.triu(a)
                        if unit:
                            n = a.shape[-1]
                            a = a * (1 - np.eye(n)) + np.eye(n)
                        a = a if how == "NO_TRANSPOSE" else np.swapaxes(a, -1, -2)
                        a = a.conj() if how == "ADJOINT" else a
                        return np.linalg.solve(a, b) if left else b @ np.linalg.inv(a)

                    _flags = f"left_side = {str(_left).lower()}, lower = {str(_lower).lower()}, unit_diagonal = {str(_unit).lower()}"
                    case("triangular_solve", f"{_n}{'left' if _left else 'right'}{'lower' if _lower else 'upper'}{_how[0]}{'unit' if _unit else ''}", _dtype,
                         function([_ta, _tb], [_tb], f'%r = "stablehlo.triangular_solve"(%0, %1) <{{{_flags}, transpose_a = #stablehlo<transpose {_how}>}}> : ({_ta}, {_tb}) -> {_tb}'),
                         [_a, _b], judge=_solve, limit=64, scale=lambda a, b: np.float64(4))  # fmt: skip

for _dtype in (dtypes.C64, dtypes.C128):
    _real = _dtype.component
    for _n in (1, 2, 7, 8, 12, 31, 128):
        for _kind, _f in (
            ("FFT", np.fft.fft),
            ("IFFT", np.fft.ifft),
            ("RFFT", np.fft.rfft),
            ("IRFFT", None),
        ):
            _length = _n // 2 + 1
            _in = {"RFFT": (_real, (3, _n)), "IRFFT": (_dtype, (3, _length))}.get(
                _kind, (_dtype, (3, _n))
            )
            _out = {"RFFT": (_dtype, (3, _length)), "IRFFT": (_real, (3, _n))}.get(
                _kind, (_dtype, (3, _n))
            )
            _ti, _to = tensor(_in[0], *_in[1]), tensor(_out[0], *_out[1])
            case("fft", f"{_kind}{_n}", _dtype, function([_ti], [_to], f"%r = stablehlo.fft %0, type = {_kind}, length = [{_n}] : ({_ti}) -> {_to}"),
                 [ordinary(*_in)], judge=_f or (lambda a, n=_n: np.fft.irfft(a, n)), limit=32, scale=lambda a: np.float64(1 + np.abs(a).sum(-1).max()))  # fmt: skip
    _ti = tensor(_dtype, 2, 4, 6)
    case("fft", "FFT2d", _dtype, function([_ti], [_ti], f"%r = stablehlo.fft %0, type = FFT, length = [4, 6] : ({_ti}) -> {_ti}"),
         [ordinary(_dtype, (2, 4, 6))], judge=lambda a: np.fft.fft2(a), limit=16, scale=lambda a: np.float64(32))  # fmt: skip
    _ti = tensor(_dtype, 0, 6)
    case("fft", "empty", _dtype, function([_ti], [_ti], f"%r = stablehlo.fft %0, type = FFT, length = [6] : ({_ti}) -> {_ti}"),
         [ordinary(_dtype, (0, 6))], judge=lambda a: a)  # fmt: skip
    _ti = tensor(_dtype, 3, 0)
    case("fft", "length_0", _dtype, function([_ti], [_ti], f"%r = stablehlo.fft %0, type = IFFT, length = [0] : ({_ti}) -> {_ti}"),
         [ordinary(_dtype, (3, 0))], judge=lambda a: a)  # fmt: skip
