"""Sequences of thunks as one function, and comparators of sorts."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from tripont.core.compiler.codegen import sequence
from tripont.core.compiler.codegen.kernels.emit import emit_kernel
from tripont.core.compiler.codegen.sort import emit_comparator
from tripont.core.compiler.formats.artifact import (
    Conditional,
    Copy,
    Kernel,
    Slice,
    While,
)
from tripont.core.compiler.ir import hlo
from tripont.core.compiler.ir.dtypes import F32, PRED, S32
from tripont.core.compiler.ir.errors import CompileError
from tripont.core.compiler.targets import host

from .harness import LoadedImage, aligned, fusion, op

S = hlo.Shape
N = 16


class Program:
    """Thunks over one arena: slots of 64 bytes."""

    def __init__(self):
        self.target = host.for_cpu()
        self.module = self.target.module()
        self.symbols = []

    def slot(self, number, size=64):
        return Slice(0, 64 * number, size)

    def kernel(self, instruction, *slots):
        name = f"k{len(self.symbols)}"
        emitted = emit_kernel(self.module, self.target, instruction, name)
        self.symbols.append(emitted.function)
        return Kernel(
            len(self.symbols) - 1, tuple(slots), emitted.work_count, emitted.grain, emitted.cost_ns
        )

    def run(self, thunks, arena, placed=()):
        emitted, slices = sequence.emit_sequence(
            self.module, self.target, thunks, self.symbols, "main", placed=placed
        )
        loaded = LoadedImage(self.target.compile(self.module))
        pointers = (ctypes.c_void_p * len(slices))(*(arena.ctypes.data + s.offset for s in slices))
        function = loaded.function(emitted.function)
        function(ctypes.addressof(pointers), 0, emitted.work_count)
        return function, pointers, loaded


def increment():
    i = hlo.parameter(0, S(S32))
    return fusion("loop", [i], op("add", S(S32), i, hlo.constant(1, S32)))


def less(limit):
    i = hlo.parameter(0, S(S32))
    root = op(
        "compare", S(PRED), i, hlo.constant(limit, S32), direction="LT", comparison_type="SIGNED"
    )
    return fusion("loop", [i], root)


def scaled_sum(count=N):
    x, y = hlo.parameter(0, S(F32, (count,))), hlo.parameter(1, S(F32, (count,)))
    half = hlo.broadcast(hlo.constant(0.5, F32), (count,))
    return fusion("loop", [x, y], op("add", x.shape, op("multiply", x.shape, x, half), y))


def floats(arena, slot):
    return arena[64 * slot : 64 * slot + 4 * N].view(np.float32)


def ints(arena, slot):
    return arena[64 * slot : 64 * slot + 4].view(np.int32)


def loop_thunks(p, steps, trip_count):
    """slot 0: i, 1: predicate, 2: x, 3: y, 4: next x"""
    condition = p.kernel(less(steps), p.slot(0, 4), p.slot(1, 1))
    body = (
        p.kernel(scaled_sum(), p.slot(2), p.slot(3), p.slot(4)),
        p.kernel(increment(), p.slot(0, 4), p.slot(0, 4)),
        Copy(p.slot(2), p.slot(4)),
    )
    return [While((condition,), body, p.slot(1, 1), trip_count)]


def test_small_states_are_in_registers():
    """Whatever is left of a vector: nothing that the loop computes goes through memory."""
    for count in (3, 7, 13, 15):
        p = Program()
        size = 4 * count
        body = (
            p.kernel(scaled_sum(count), *(p.slot(n, size) for n in (2, 3, 4))),
            Copy(p.slot(2, size), p.slot(4, size)),
        )
        arena = aligned((64 * 5,), np.uint8)
        arena[...] = 0
        floats(arena, 3)[:] = np.arange(N)
        p.run([While((), body, p.slot(1, 1), 2)], arena)
        expected = 1.5 * np.arange(N)
        expected[count:] = 0
        np.testing.assert_array_equal(floats(arena, 2), expected.astype(np.float32))
        assert "alloca" not in p.target.optimised_ir(str(p.module))


def test_rows_at_computed_places_are_written_where_they_lie():
    """A copy of 56 bytes would wait for the store of the last row, which is 8 of them."""
    for placed in (True, False):
        p = Program()
        i, x = hlo.parameter(0, S(S32)), hlo.parameter(1, S(F32, (7, 2)))
        zero = hlo.constant(0, S32)
        row = hlo.broadcast(hlo.constant(2.0, F32), (1, 2))
        write = fusion(
            "dynamic-update-slice", [i, x], op("dynamic-update-slice", x.shape, x, row, i, zero)
        )
        rows = p.slot(2, 56)
        body = (
            p.kernel(write, p.slot(0, 4), rows, rows),
            p.kernel(increment(), p.slot(0, 4), p.slot(0, 4)),
        )
        condition = p.kernel(less(5), p.slot(0, 4), p.slot(1, 1))
        arena = aligned((64 * 5,), np.uint8)
        arena[...] = 0
        ints(arena, 0)[0] = 2
        p.run([While((condition,), body, p.slot(1, 1), -1)], arena, [rows] if placed else [])
        expected = np.repeat(np.float32([0, 0, 2, 2, 2, 0, 0]), 2)
        np.testing.assert_array_equal(floats(arena, 2)[:14], expected)
        assert ("alloca [56 x i8]" in str(p.module)) is not placed


def test_while():
    for trip_count in (-1, 7):
        p = Program()
        arena = aligned((64 * 5,), np.uint8)
        arena[...] = 0
        floats(arena, 3)[:] = np.arange(N)
        p.run(loop_thunks(p, 7, trip_count), arena)
        expected = np.zeros(N, np.float32)
        for _ in range(7):
            expected = expected * 0.5 + np.arange(N)
        np.testing.assert_allclose(floats(arena, 2), expected, rtol=1e-6)
        assert ints(arena, 0)[0] == 7


def test_conditional_and_nesting():
    for is_pred, choice in [
        (True, 1),
        (True, 0),
        (False, 0),
        (False, 1),
        (False, 2),
        (False, 9),
        (False, -1),
    ]:
        p = Program()
        arena = aligned((64 * 6,), np.uint8)
        arena[...] = 0
        ints(arena, 5)[0] = choice
        floats(arena, 3)[:] = 1
        branches = [
            tuple(loop_thunks(p, 3, -1)),
            (p.kernel(increment(), p.slot(0, 4), p.slot(0, 4)),),
            (Copy(p.slot(2, 48), p.slot(3, 48)),),
        ]
        thunk = Conditional(p.slot(5, 4), is_pred, tuple(branches[: 2 if is_pred else 3]))
        p.run([thunk], arena)
        branch = (0 if choice else 1) if is_pred else (choice if 0 <= choice < 2 else 2)
        assert ints(arena, 0)[0] == {0: 3, 1: 1, 2: 0}[branch]
        expected = {0: [1.75] * N, 1: [0] * N, 2: [1] * 12 + [0] * 4}[branch]
        np.testing.assert_array_equal(floats(arena, 2), expected)


def test_functions_in_functions_are_inlined_up_to_a_size():
    """Each of 60 functions calls the one before: none holds them all."""
    p = Program()
    kernel = p.kernel(increment(), p.slot(0, 4), p.slot(0, 4))
    for n in range(60):
        emitted, slices = sequence.emit_sequence(
            p.module, p.target, [kernel, kernel][: 1 + (n < 3)], p.symbols, f"level{n}"
        )
        p.symbols.append(emitted.function)
        kernel = Kernel(len(p.symbols) - 1, slices, 1, 1, 1.0)
    most = sequence.INLINED_LINES + 2 * sequence.INLINED_IN_ALL
    assert all(f.lines + f.inlined_lines <= most for f in p.module.functions.values())
    assert sum(" alwaysinline" in f.body for f in p.module.functions.values()) > 30
    arena = aligned((64,), np.uint8)
    ints(arena, 0)[...] = 5
    p.run([kernel], arena)
    assert ints(arena, 0)[0] == 5 + 2**3


def test_comparator():
    """By the second operand descending, then by the first ascending."""
    a0, b0, a1, b1 = (hlo.parameter(n, S(d)) for n, d in enumerate([F32, F32, S32, S32]))
    after = op("compare", S(PRED), a1, b1, direction="GT", comparison_type="SIGNED")
    same = op("compare", S(PRED), a1, b1, direction="EQ", comparison_type="SIGNED")
    before = op("compare", S(PRED), a0, b0, direction="LT", comparison_type="TOTALORDER")
    root = op("or", S(PRED), after, op("and", S(PRED), same, before))
    body = hlo.Computation.from_root("less", [a0, b0, a1, b1], root)
    operands = [hlo.parameter(0, S(F32, (4,))), hlo.parameter(1, S(S32, (4,)))]
    shape = hlo.TupleShape(tuple(o.shape for o in operands))
    sort = op("sort", shape, *operands, called=[body], dimension=0, is_stable=True)
    target = host.for_cpu()
    module = target.module()
    name = emit_comparator(module, target, sort, "less")
    loaded = LoadedImage(target.compile(module))
    function = ctypes.CFUNCTYPE(ctypes.c_uint8, ctypes.c_void_p)(loaded.base + loaded.symbols[name])
    for (x, i), (y, j) in [
        ((1, 2), (3, 4)),
        ((1, 4), (3, 2)),
        ((1, 4), (3, 4)),
        ((3, 4), (3, 4)),
        ((-0.0, 1), (0.0, 1)),
    ]:
        data = [
            np.array([v], t)
            for v, t in ((x, np.float32), (y, np.float32), (i, np.int32), (j, np.int32))
        ]
        pairs = (ctypes.c_void_p * 4)(*(d.ctypes.data for d in data))
        expected = i > j or (
            i == j and (x < y or (x == 0 == y and np.signbit(x) and not np.signbit(y)))
        )
        assert function(ctypes.addressof(pairs)) == int(expected)


def test_copy_between_different_sizes_is_an_error():
    """One of the places may be a slot on the stack of the generated function."""
    program = Program()
    copies = [Copy(program.slot(0, 16), program.slot(1, 1600))]
    with pytest.raises(CompileError, match="1600 bytes into 16 bytes") as caught:
        sequence.emit_sequence(program.module, program.target, copies, program.symbols, "main")
    assert caught.value.code == "INTERNAL"
