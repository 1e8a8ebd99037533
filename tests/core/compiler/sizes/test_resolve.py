"""Sizes that depend on values: every instruction's rule, at every size, against NumPy on the arrays that are there.

Programs are HLO text. ``_GIVEN`` makes from arrays of known sizes, whose other elements would show in a wrong result
(they are NaN or huge), ``y`` f32[<=6,4] and ``v`` f32[<=6] of ``n`` rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from jaxlib import _hlo
from tripont.core import _tripont
from tripont.core.compiler.compile import compile_program
from tripont.core.compiler.importer import read_program
from tripont.core.compiler.ir import verifier
from tripont.core.compiler.ir.errors import CompileError
from tripont.core.compiler.ir.registry import all_ops
from tripont.core.compiler.sizes import table
from tripont.core.compiler.sizes.resolve import OPCODES, RULES, resolve_dynamic_sizes, rule_of

_ROWS = 6
_GIVEN = """
  n = s32[] parameter(0)
  m = s32[] parameter(1)
  rows = f32[6,4] parameter(2)
  vector = f32[6] parameter(3)
  y = f32[<=6,4] set-dimension-size(rows, n), dimensions={0}
  v = f32[<=6] set-dimension-size(vector, n), dimensions={0}
  u = f32[<=6] set-dimension-size(vector, m), dimensions={0}
  zero = f32[] constant(0)
  one = f32[] constant(1)
  none = s32[] constant(0)
"""
_COMPUTATIONS = """
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
max { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] maximum(a, b) }
less { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = pred[] compare(a, b), direction=LT }
before {
  a = f32[] parameter(0) b = f32[] parameter(1) i = s32[] parameter(2) j = s32[] parameter(3)
  ROOT r = pred[] compare(a, b), direction=GT
}
both {
  a = f32[] parameter(0) i = s32[] parameter(1) b = f32[] parameter(2) j = s32[] parameter(3)
  s = f32[] add(a, b) k = s32[] add(i, j)
  ROOT r = (f32[], s32[]) tuple(s, k)
}
whole { a = f32[<=6] parameter(0) ROOT r = f32[<=6] negate(a) }
fewer {
  a = f32[<=6] parameter(0) k = s32[] get-dimension-size(a), dimensions={0} two = s32[] constant(2)
  h = s32[] divide(k, two) ROOT r = f32[<=6] set-dimension-size(a, h), dimensions={0}
}
known { a = f32[6] parameter(0) ROOT r = f32[6] negate(a) }
more { s = (s32[], f32[<=6]) parameter(0) i = s32[] get-tuple-element(s), index=0 e = s32[] constant(3)
  ROOT r = pred[] compare(i, e), direction=LT }
step { s = (s32[], f32[<=6]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  a = f32[<=6] get-tuple-element(s), index=1
  o = s32[] constant(1)
  j = s32[] add(i, o)
  b = f32[<=6] add(a, a)
  ROOT r = (s32[], f32[<=6]) tuple(j, b) }
shrink { s = (s32[], f32[<=6]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  a = f32[<=6] get-tuple-element(s), index=1
  o = s32[] constant(1)
  j = s32[] add(i, o)
  z = s32[] constant(0)
  k = s32[] get-dimension-size(a), dimensions={0}
  l = s32[] subtract(k, o)
  q = s32[] maximum(l, z)
  b = f32[<=6] set-dimension-size(a, q), dimensions={0}
  ROOT r = (s32[], f32[<=6]) tuple(j, b) }
"""


def _program(body: str) -> bytes:
    text = f"HloModule m\n{_COMPUTATIONS}\nENTRY main {{{_GIVEN}{body}\n}}"
    return bytes(_hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto())


def _arguments(n: int, m: int) -> list[np.ndarray]:
    """Rows that are not there are NaN and huge."""
    rows = np.arange(1, 25, dtype=np.float32).reshape(6, 4) % 7 - 3
    vector = np.array([2, -1, 3, 0.5, -2, 1], np.float32)
    rows[n:] = np.nan
    vector[max(n, m) :] = 1e30
    return [np.int32(n), np.int32(m), rows, vector]


@pytest.fixture(scope="module")
def device() -> Any:
    return _tripont.Client({"prestart_worker": False, "cache": False}).devices[0]


def _run(loaded: Any, device: Any, n: int, m: int) -> list[np.ndarray]:
    return [np.asarray(r) for r in loaded.run(device, _arguments(n, m))]


Judge = Callable[..., Any]
_CASES: dict[str, tuple[str, Judge]] = {}


def case(name: str, body: str, judge: Judge) -> None:
    """A program and what it computes from the rows and the vector that are there, and the other vector."""
    _CASES[name] = body, judge


def _windows(v: np.ndarray, size: int, stride: int = 1) -> np.ndarray:
    starts = range(0, len(v) - size + 1, stride)
    return np.array([v[s : s + size].sum() for s in starts], v.dtype)


case(
    "get-dimension-size",
    "ROOT r = s32[] get-dimension-size(y), dimensions={0}",
    lambda y, v, u: np.int32(len(y)),
)
case(
    "get-dimension-size-known",
    "ROOT r = s32[] get-dimension-size(y), dimensions={1}",
    lambda y, v, u: np.int32(4),
)
case(
    "set-dimension-size-twice",
    "ROOT r = f32[<=6] set-dimension-size(v, m), dimensions={0}",
    lambda y, v, u: v[: len(u)],
)
case(
    "set-dimension-size-two",
    "f = s32[] constant(4) k = s32[] minimum(m, f) ROOT r = f32[<=6,<=4] set-dimension-size(y, k), dimensions={1}",
    lambda y, v, u: y[:, : len(u)],
)
case(
    "elementwise",
    "e = f32[<=6] exponential(v) ROOT r = f32[<=6] multiply(e, v)",
    lambda y, v, u: np.exp(v) * v,
)
case(
    "elementwise-broadcast",
    "b = f32[6] broadcast(one), dimensions={} ROOT r = f32[<=6] add(v, b)",
    lambda y, v, u: v + 1,
)
case(
    "elementwise-iota",
    "i = s32[6] iota(), iota_dimension=0 c = f32[6] convert(i) d = f32[6] negate(c) ROOT r = f32[<=6] add(v, d)",
    lambda y, v, u: v - np.arange(len(v), dtype=np.float32),
)
case(
    "select",
    "z = f32[6] broadcast(zero), dimensions={} p = pred[<=6] compare(v, z), direction=GT"
    " ROOT r = f32[<=6] select(p, v, z)",
    lambda y, v, u: np.maximum(v, 0),
)
case("convert", "ROOT r = s32[<=6,4] convert(y)", lambda y, v, u: y.astype(np.int32))
case("bitcast-convert", "ROOT r = s32[<=6] bitcast-convert(v)", lambda y, v, u: v.view(np.int32))
case(
    "bitcast-convert-bytes",
    "ROOT r = u8[<=6,4] bitcast-convert(v)",
    lambda y, v, u: v.view(np.uint8).reshape(-1, 4),
)
case("copy", "ROOT r = f32[<=6] copy(v)", lambda y, v, u: v)
case(
    "optimization-barrier",
    "t = (f32[<=6], f32[<=6,4]) tuple(v, y) o = (f32[<=6], f32[<=6,4]) opt-barrier(t)"
    " ROOT r = f32[<=6] get-tuple-element(o), index=0",
    lambda y, v, u: v,
)
case(
    "broadcast",
    "ROOT r = f32[2,<=6] broadcast(v), dimensions={1}",
    lambda y, v, u: np.stack([v, v]),
)
case("reshape-column", "ROOT r = f32[<=6,1] reshape(v)", lambda y, v, u: v[:, None])
case("reshape-flat", "ROOT r = f32[<=24] reshape(y)", lambda y, v, u: y.ravel())
case("reshape-pairs", "ROOT r = f32[<=12,2] reshape(y)", lambda y, v, u: y.reshape(-1, 2))
case(
    "reshape-nothing",
    "s = f32[<=6,0] slice(y), slice={[0:6], [2:2]} ROOT r = f32[<=6,0] reshape(s)",
    lambda y, v, u: y[:, 2:2],
)
case(
    "reshape-nothing-to-more-dimensions",
    "s = f32[<=6,0] slice(y), slice={[0:6], [2:2]} t = f32[0,<=6] transpose(s), dimensions={1,0}"
    " ROOT r = f32[1,0,<=6] reshape(t)",
    lambda y, v, u: y[:, 2:2].T[None],
)
case(
    "reshape-nothing-flat",
    "s = f32[<=6,0] slice(y), slice={[0:6], [2:2]} ROOT r = f32[0] reshape(s)",
    lambda y, v, u: y[:, 2:2].ravel(),
)
case(
    "reshape-gaps",
    "t = f32[4,<=6] transpose(y), dimensions={1,0} ROOT r = f32[<=24] reshape(t)",
    lambda y, v, u: y.T.ravel(),
)
case(
    "dynamic-reshape",
    "f = s32[] constant(4) k = s32[] multiply(n, f) ROOT r = f32[<=24] dynamic-reshape(y, k)",
    lambda y, v, u: y.ravel(),
)
case(
    "dynamic-reshape-gaps",
    "f = s32[] constant(4) t = f32[4,<=6] transpose(y), dimensions={1,0}"
    " ROOT r = f32[<=6,4] dynamic-reshape(t, n, f)",
    lambda y, v, u: y.T.reshape(-1, 4),
)
case("transpose", "ROOT r = f32[4,<=6] transpose(y), dimensions={1,0}", lambda y, v, u: y.T)
case("slice", "ROOT r = f32[<=3] slice(v), slice={[1:4]}", lambda y, v, u: v[1:4])
case("slice-stride", "ROOT r = f32[<=3] slice(v), slice={[0:6:2]}", lambda y, v, u: v[::2])
case("slice-stride-from", "ROOT r = f32[<=2] slice(v), slice={[1:6:3]}", lambda y, v, u: v[1::3])
case(
    "slice-columns", "ROOT r = f32[<=6,2] slice(y), slice={[0:6], [1:3]}", lambda y, v, u: y[:, 1:3]
)
case(
    "pad",
    "ROOT r = f32[<=9] pad(v, one), padding=1_2",
    lambda y, v, u: np.pad(v, (1, 2), constant_values=1),
)
case(
    "pad-columns",
    "ROOT r = f32[<=6,5] pad(y, one), padding=0_0x1_0",
    lambda y, v, u: np.pad(y, ((0, 0), (1, 0)), constant_values=1),
)
case(
    "pad-interior",
    "ROOT r = f32[<=11] pad(v, one), padding=0_0_1",
    lambda y, v, u: np.stack([v, np.ones_like(v)], 1).ravel()[: max(2 * len(v) - 1, 0)],
)
case("pad-negative", "ROOT r = f32[<=4] pad(v, one), padding=-2_0", lambda y, v, u: v[2:])
case(
    "concatenate",
    "ROOT r = f32[<=18] concatenate(v, vector, v), dimensions={0}",
    lambda y, v, u, w: np.concatenate([v, w, v]),
)
case(
    "concatenate-two",
    "ROOT r = f32[<=12] concatenate(u, v), dimensions={0}",
    lambda y, v, u: np.concatenate([u, v]),
)
case(
    "concatenate-columns",
    "ROOT r = f32[<=6,8] concatenate(y, y), dimensions={1}",
    lambda y, v, u: np.concatenate([y, y], 1),
)
case("reverse", "ROOT r = f32[<=6] reverse(v), dimensions={0}", lambda y, v, u: v[::-1])
case(
    "reverse-both",
    "ROOT r = f32[<=6,4] reverse(y), dimensions={0,1}",
    lambda y, v, u: y[::-1, ::-1],
)
case(
    "reverse-columns", "ROOT r = f32[<=6,4] reverse(y), dimensions={1}", lambda y, v, u: y[:, ::-1]
)
case(
    "dynamic-slice-columns",
    "ROOT r = f32[<=6,2] dynamic-slice(y, none, m), dynamic_slice_sizes={6,2}",
    lambda y, v, u: y[:, (s := min(len(u), 2)) : s + 2],
)
case(
    "dynamic-update-slice-column",
    "e = f32[6,1] reshape(vector) d = f32[<=6,1] set-dimension-size(e, n), dimensions={0}"
    " ROOT r = f32[<=6,4] dynamic-update-slice(y, d, none, none)",
    lambda y, v, u: np.concatenate([v[:, None], y[:, 1:]], 1),
)
_GATHER = "offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,4}"
case(
    "gather-indices",
    f"c = s32[<=6] convert(v) i = s32[<=6,1] reshape(c) t = f32[6,4] broadcast(vector), dimensions={{0}}"
    f" ROOT r = f32[<=6,4] gather(t, i), {_GATHER}",
    lambda y, v, u, w: np.repeat(w[np.clip(v.astype(np.int32), 0, 5)][:, None], 4, 1),
)
case(
    "gather-whole-rows",
    "i = s32[3] constant({3, 0, 9}) ROOT r = f32[<=6,3] gather(y, i), offset_dims={0},"
    " collapsed_slice_dims={1}, start_index_map={1}, index_vector_dim=1, slice_sizes={6,1}",
    lambda y, v, u: y[:, [3, 0, 3]],
)
# Indices of a type that does not hold every size.
_LONG = (
    "i = f32[300] iota(), iota_dimension=0 p = s32[] constant(290)"
    " w = f32[<=300] set-dimension-size(i, p), dimensions={0} "
)
case(
    "gather-short-indices",
    _LONG + "c = s8[3] constant({100, 3, -5}) ROOT r = f32[3] gather(w, c), offset_dims={},"
    " collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1}",
    lambda y, v, u: np.array([100, 3, 0], np.float32),
)
case(
    "dynamic-slice-short-index",
    _LONG + "c = s8[] constant(100) ROOT r = f32[2] dynamic-slice(w, c), dynamic_slice_sizes={2}",
    lambda y, v, u: np.array([100, 101], np.float32),
)
case(
    "scatter-short-indices",
    "t = f32[300] broadcast(zero), dimensions={} c = u8[6] iota(), iota_dimension=0"
    " ROOT r = f32[300] scatter(t, c, v), update_window_dims={}, inserted_window_dims={0},"
    " scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add",
    lambda y, v, u: np.pad(v, (0, 300 - len(v))),
)
_SCATTER = (
    "inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add"
)
case(
    "scatter-updates",
    "c = s32[<=6] convert(v) i = s32[<=6,1] reshape(c) z = f32[4] broadcast(one), dimensions={}"
    f" ROOT r = f32[4] scatter(z, i, v), update_window_dims={{}}, {_SCATTER}",
    lambda y, v, u: _added(v),
)
case(
    "scatter-into-columns",
    "i = s32[2,1] constant({{3}, {3}}) b = f32[<=6,2] slice(y), slice={[0:6], [0:2]}"
    " ROOT r = f32[<=6,4] scatter(y, i, b), update_window_dims={0}, inserted_window_dims={1},"
    " scatter_dims_to_operand_dims={1}, index_vector_dim=1, to_apply=add",
    lambda y, v, u: np.concatenate([y[:, :3], y[:, 3:] + y[:, :1] + y[:, 1:2]], 1),
)
case(
    "reduce-sum",
    "ROOT r = f32[] reduce(v, zero), dimensions={0}, to_apply=add",
    lambda y, v, u: v.sum(dtype=np.float32),
)
case(
    "reduce-columns",
    "ROOT r = f32[4] reduce(y, zero), dimensions={0}, to_apply=add",
    lambda y, v, u: y.sum(0),
)
case(
    "reduce-rows",
    "l = f32[] constant(-inf) ROOT r = f32[<=6] reduce(y, l), dimensions={1}, to_apply=max",
    lambda y, v, u: y.max(1),
)
case(
    "reduce-max",
    "w = f32[<=6] negate(v) l = f32[] constant(-inf) ROOT r = f32[] reduce(w, l), dimensions={0}, to_apply=max",
    lambda y, v, u: np.max(-v, initial=-np.inf),
)
case(
    "reduce-two",
    "i = s32[6] iota(), iota_dimension=0 t = (f32[], s32[]) reduce(v, i, zero, none), dimensions={0}, to_apply=both"
    " ROOT r = s32[] get-tuple-element(t), index=1",
    lambda y, v, u: np.int32(np.arange(len(v)).sum()),
)
case(
    "reduce-window-running",
    "ROOT r = f32[<=6] reduce-window(v, zero), window={size=6 pad=5_0}, to_apply=add",
    lambda y, v, u: np.cumsum(v),
)
case(
    "reduce-window",
    "ROOT r = f32[<=4] reduce-window(v, zero), window={size=3}, to_apply=add",
    lambda y, v, u: _windows(v, 3),
)
case(
    "reduce-window-stride",
    "ROOT r = f32[<=3] reduce-window(v, zero), window={size=2 stride=2}, to_apply=add",
    lambda y, v, u: _windows(v, 2, 2),
)
case(
    "reduce-window-columns",
    "ROOT r = f32[<=6,2] reduce-window(y, zero), window={size=1x2 stride=1x2}, to_apply=add",
    lambda y, v, u: y.reshape(-1, 2, 2).sum(2),
)
case("sort", "ROOT r = f32[<=6] sort(v), dimensions={0}, to_apply=less", lambda y, v, u: np.sort(v))
case(
    "sort-rows",
    "ROOT r = f32[<=6,4] sort(y), dimensions={1}, to_apply=less",
    lambda y, v, u: np.sort(y, 1),
)
case(
    "sort-two",
    "i = s32[6] iota(), iota_dimension=0 t = (f32[<=6], s32[<=6]) sort(v, i), dimensions={0}, to_apply=before"
    " ROOT r = s32[<=6] get-tuple-element(t), index=1",
    lambda y, v, u: np.argsort(-v).astype(np.int32),
)
case(
    "topk",
    "t = (f32[<=2], s32[<=2]) topk(v), k=2, largest=true ROOT r = s32[<=2] get-tuple-element(t), index=1",
    lambda y, v, u: np.argsort(-v)[:2].astype(np.int32),
)
case(
    "dot-rows",
    "ROOT r = f32[<=6,<=6] dot(y, y), lhs_contracting_dims={1}, rhs_contracting_dims={1}",
    lambda y, v, u: y @ y.T,
)
case(
    "dot-contracted",
    "ROOT r = f32[4,4] dot(y, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
    lambda y, v, u: y.T @ y,
)
case(
    "dot-batch",
    "ROOT r = f32[<=6] dot(y, y), lhs_batch_dims={0}, rhs_batch_dims={0},"
    " lhs_contracting_dims={1}, rhs_contracting_dims={1}",
    lambda y, v, u: (y * y).sum(1),
)
_IMAGES = "i = f32[<=6,2,2,1] reshape(y)"
case(
    "convolution-batch",
    f"{_IMAGES} k = f32[2,2,1,1] broadcast(one), dimensions={{}}"
    " ROOT r = f32[<=6,1,1,1] convolution(i, k), window={size=2x2}, dim_labels=b01f_01io->b01f",
    lambda y, v, u: y.sum(1).reshape(-1, 1, 1, 1),
)
case(
    "convolution-gradient",
    f"{_IMAGES} k = f32[<=6,2,2,1] reshape(y)"
    " ROOT r = f32[1,1,1,1] convolution(i, k), window={size=2x2}, dim_labels=f01b_i01o->b01f",
    lambda y, v, u: (y * y).sum().reshape(1, 1, 1, 1),
)
case(
    "fft",
    "ROOT r = c64[<=6,3] fft(y), fft_type=RFFT, fft_length={4}",
    lambda y, v, u: np.fft.rfft(y).astype(np.complex64),
)
_MATRICES = "b = f32[<=6,2,2] broadcast(v), dimensions={0} e = f32[<=6,2,2] multiply(b, b)"
case(
    "cholesky",
    "q = f32[<=6] multiply(v, v) b = f32[<=6,1,1] reshape(q) ROOT r = f32[<=6,1,1] cholesky(b), lower=true",
    lambda y, v, u: np.abs(v)[:, None, None],
)
case(
    "triangular-solve",
    f"{_MATRICES} k = f32[<=6,2,1] slice(b), slice={{[0:6], [0:2], [0:1]}}"
    " ROOT r = f32[<=6,2,1] triangular-solve(e, k), left_side=true, lower=true, unit_diagonal=false,"
    " transpose_a=NO_TRANSPOSE",
    lambda y, v, u: np.stack([1 / v, 0 * v], 1)[:, :, None],
)
case(
    "while",
    "t = (s32[], f32[<=6]) tuple(none, v) l = (s32[], f32[<=6]) while(t), condition=more, body=step"
    " ROOT r = f32[<=6] get-tuple-element(l), index=1",
    lambda y, v, u: v * 8,
)
case(
    "while-shrinks",
    "t = (s32[], f32[<=6]) tuple(none, v) l = (s32[], f32[<=6]) while(t), condition=more, body=shrink"
    " ROOT r = f32[<=6] get-tuple-element(l), index=1",
    lambda y, v, u: v[: max(len(v) - 3, 0)],
)
case(
    "while-begins-whole",
    "t = (s32[], f32[6]) tuple(none, vector) l = (s32[], f32[<=6]) while(t), condition=more, body=shrink"
    " ROOT r = f32[<=6] get-tuple-element(l), index=1",
    lambda y, v, u, w: w[:3],
)
case(
    "conditional",
    "ROOT r = f32[<=6] conditional(n, v, u), branch_computations={whole, fewer}",
    lambda y, v, u: -v if len(v) == 0 else u[: len(u) // 2],
)
case(
    "conditional-known",
    "ROOT r = f32[<=6] conditional(n, v, vector), branch_computations={fewer, known}",
    lambda y, v, u, w: v if len(v) == 0 else -w,
)
case(
    "two-results",
    "s = f32[] reduce(v, zero), dimensions={0}, to_apply=add ROOT r = (f32[<=6], f32[], f32[<=6,4]) tuple(v, s, y)",
    lambda y, v, u: (v, v.sum(dtype=np.float32), y),
)


def _added(v: np.ndarray) -> np.ndarray:
    out = np.ones(4, np.float32)
    for x in v:
        if 0 <= int(x) < 4:
            out[int(x)] += x
    return out


@pytest.mark.parametrize("name", _CASES)
def test_every_size(device: Any, name: str) -> None:
    body, judge = _CASES[name]
    loaded = _tripont.Executable.load(compile_program(_program(body), "hlo", b"", {}))
    for n, m in [(0, 3), (1, 0), (2, 6), (4, 1), (6, 2)]:
        _, _, rows, vector = _arguments(n, m)
        there = [rows[:n], vector[:n], vector[:m]]
        expected = judge(*there, vector) if judge.__code__.co_argcount == 4 else judge(*there)
        expected = expected if isinstance(expected, tuple) else (expected,)
        results = _run(loaded, device, n, m)
        assert len(results) == len(expected)
        for result, wanted in zip(results, expected, strict=True):
            assert (result.shape, result.dtype) == (np.shape(wanted), np.asarray(wanted).dtype)
            np.testing.assert_allclose(
                result, wanted, rtol=1e-5, atol=1e-7, err_msg=f"n = {n}, m = {m}"
            )


def test_every_op_has_a_rule_or_is_refused() -> None:
    """An op that is added is decided about in sizes/table.py, unless it is elementwise."""
    for op in all_ops():
        assert (rule_of(op) is None) == (op.name in table.REFUSED), op.name


def test_every_rule_has_a_case() -> None:
    rules = sorted(RULES)
    have = "\n".join(body for body, _ in _CASES.values()).replace(
        "opt-barrier", "optimization-barrier"
    )
    assert [opcode for opcode in rules if f" {opcode}(" not in f"{have}{_GIVEN}"] == []


@pytest.mark.parametrize("name", _CASES)
def test_what_is_left_is_valid_and_static(name: str) -> None:
    module = read_program(_program(_CASES[name][0]), "hlo")
    module.assign_names()
    verifier.verify(module)
    resolved = resolve_dynamic_sizes(module)
    resolved.assign_names()
    verifier.verify(resolved)
    assert not any(i.opcode in OPCODES for c in resolved.computations() for i in c.instructions)


_IMAGE = f"{_IMAGES} k = f32[2,2,1,1] broadcast(one), dimensions={{}}"


@pytest.mark.parametrize(
    ("body", "what"),
    [
        ("ROOT r = f32[<=6] add(u, v)", "have different sizes"),
        ("ROOT r = f32[6] add(vector, v)", "meets one of size 6"),
        (
            "ROOT r = f32[] reshape(s) s = f32[<=1] slice(v), slice={[5:6]}",
            "of an array that has none",
        ),
        ("ROOT r = f32[<=12,2] dynamic-reshape(y, m, m)", "reshaped to another number of elements"),
        ("ROOT r = f32[<=2,3] reshape(v)", "not a multiple of 3"),
        (
            "ROOT r = f32[5] dynamic-slice(v, none), dynamic_slice_sizes={5}",
            "more is read or written",
        ),
        (
            "i = s32[] constant(3) ROOT r = f32[2] dynamic-slice(v, i), dynamic_slice_sizes={2}",
            "more is read or written",
        ),
        (
            "i = u8[] constant(255) ROOT r = f32[2] dynamic-slice(v, i), dynamic_slice_sizes={2}",
            "more is read or written",
        ),
        (
            "i = s32[] constant(-1) ROOT r = f32[1] dynamic-slice(v, i), dynamic_slice_sizes={1}",
            "more is read or written",
        ),
        (
            "c = s32[1] constant({0}) ROOT r = f32[1] gather(s, c), offset_dims={}, collapsed_slice_dims={0},"
            " start_index_map={0}, index_vector_dim=1, slice_sizes={1} s = f32[<=1] slice(v), slice={[5:6]}",
            "an element is taken of an array that has none",
        ),
    ],
)
def test_arrays_of_sizes_that_do_not_fit_fail_where_the_program_runs(
    device: Any, body: str, what: str
) -> None:
    words = body.split(" s = ")
    body = f"s = {words[1]} {words[0]}" if len(words) > 1 else body
    loaded = _tripont.Executable.load(compile_program(_program(body), "hlo", b"", {}))
    with pytest.raises(RuntimeError, match=what) as caught:
        _run(loaded, device, 4, 2)
    assert "INVALID_ARGUMENT" in str(caught.value)


def test_a_size_below_0_is_0(device: Any) -> None:
    program = _program("ROOT r = f32[<=6] negate(v)")
    loaded = _tripont.Executable.load(compile_program(program, "hlo", b"", {}))
    (result,) = loaded.run(device, [np.int32(-1), *_arguments(6, 6)[1:]])
    assert np.shape(result) == (0,)


@pytest.mark.parametrize("size", [7, 1_000_000])
def test_a_size_out_of_its_bound_fails_where_the_program_runs(device: Any, size: int) -> None:
    loaded = _tripont.Executable.load(
        compile_program(_program("ROOT r = f32[<=6] negate(v)"), "hlo", b"", {})
    )
    arguments = [np.int32(size), *_arguments(6, 6)[1:]]
    with pytest.raises(
        RuntimeError, match=f"given the size {size}, which is not within 0 and its bound 6"
    ):
        loaded.run(device, arguments)


@pytest.mark.parametrize(
    ("body", "name"),
    [
        (f"{_IMAGE} t = f32[2,<=6,2,1] transpose(i), dimensions={{1,0,2,3}}"
         " ROOT r = f32[2,<=5,1,1] convolution(t, k), window={size=2x2}, dim_labels=b01f_01io->b01f", "convolution"),
        ("ROOT r = f32[<=3] reduce-window(v, zero), window={size=2 stride=2 pad=1_0}, to_apply=add", "reduce-window"),
        ("ROOT r = f32[<=6] select-and-scatter(v, v, zero), window={size=1}, select=less, scatter=add",
         "select-and-scatter"),
        ("ROOT r = c64[<=6] fft(w), fft_type=FFT, fft_length={6} w = c64[<=6] convert(v)", "fft"),
        ('ROOT r = f32[<=6] custom-call(v), custom_call_target="f"', "custom-call"),
        ("ROOT r = f32[<=6] all-reduce(v), to_apply=add", "all-reduce"),
    ],
)  # fmt: skip
def test_what_has_no_rule_is_refused_by_name(body: str, name: str) -> None:
    words = body.split(" w = ")
    body = f"w = {words[1]} {words[0]}" if len(words) > 1 else body
    with pytest.raises(
        CompileError, match=f"^{name}.*depends on values.*compute it outside"
    ) as caught:
        compile_program(_program(body), "hlo", b"", {})
    assert caught.value.code == "UNIMPLEMENTED"


def test_programs_without_such_sizes_are_left_alone() -> None:
    text = "func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }"
    module = read_program(text.encode(), "mlir")
    assert resolve_dynamic_sizes(module) is module
    assert module.visible_results == -1


def test_a_variable_takes_no_array_of_such_a_size() -> None:
    text = """HloModule m, input_output_alias={ {0}: (0, {}, may-alias) }
ENTRY main {
  x = f32[6] parameter(0)
  n = s32[] parameter(1)
  y = f32[<=6] set-dimension-size(x, n), dimensions={0}
  ROOT r = (f32[<=6]) tuple(y)
}"""
    program = bytes(_hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto())
    with pytest.raises(CompileError, match="a variable cannot take a value"):
        compile_program(program, "hlo", b"", {})
