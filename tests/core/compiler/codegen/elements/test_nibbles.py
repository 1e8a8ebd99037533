"""Integers that four bits of a word decide become the floats that StableHLO says, whatever the program does to them."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import numpy as np
import pytest
from tripont.core.compiler import pipeline
from tripont.core.compiler.ir import dtypes, hlo
from tripont.core.compiler.ir.dtypes import DType
from tripont.core.compiler.observe.dump import Dump
from tripont.core.compiler.reference.evaluate import evaluate
from tripont.core.compiler.targets.host import for_cpu

from tests.core.compiler.builders import module, number, op
from tests.core.compiler.codegen.kernels.test_packed_dot import cpu, of_each_width
from tests.core.compiler.test_native import NativeSimulation

__all__ = ["cpu"]
F32, BF16, F16 = dtypes.F32, dtypes.BF16, dtypes.F16
S4, U4, S8, U8, S32, U32 = dtypes.S4, dtypes.U4, dtypes.S8, dtypes.U8, dtypes.S32, dtypes.U32
S16, U16 = dtypes.S16, dtypes.U16
# What a program does to words, as opcodes and constants. The last four are no four bits, or more.
FORMS: dict[str, list[tuple[str, int]]] = {
    "low": [("and", 15)],
    "low, zero point": [("and", 15), ("subtract", 8)],
    "low, sign": [("and", 15), ("xor", 8), ("subtract", 8)],
    "low, of the left": [("shift-left", 4), ("shift-right-arithmetic", 4)],
    "high": [("shift-right-logical", 4), ("and", 15)],
    "high, sign": [("shift-right-arithmetic", 4), ("subtract", 3)],
    "high, alone": [("shift-right-logical", 4)],
    "three bits": [("and", 7), ("multiply", 37), ("add", 100)],
    "one bit": [("and", 8), ("or", 1)],
    "five bits": [("and", 31), ("subtract", 16)],
    "bits of the middle": [("and", 30)],
    "no mask": [("shift-right-logical", 3)],
    "after a sum": [("add", 3), ("and", 15)],
}


def check(value: hlo.Instruction, stored: hlo.Instruction, words: Any, cpu: str) -> None:
    program = module([stored], value)
    (expected,) = evaluate(program, [words])
    optimised = pipeline.run(program, for_cpu(cpu, False), Dump())
    (got,) = NativeSimulation(optimised, cpu).run([words])
    np.testing.assert_array_equal(got, expected)


@of_each_width
@pytest.mark.parametrize("dtype", [U8, S8, U32, S32], ids=str)
def test_words(dtype: DType, cpu: str) -> None:
    words = np.arange(256, dtype=np.uint32)
    if dtype.bits == 32:
        words = words * np.uint32(0x91A2B3C5) + words
    words = words.astype(dtype.numpy.newbyteorder("=").str.replace("i", "u")).view(dtype.numpy)
    stored = hlo.parameter(0, hlo.Shape(dtype, (256,)))
    for form in FORMS.values():
        value = stored
        for opcode, constant in form:
            value = op(opcode, value, number(constant, 256, dtype=dtype))
        check(op("convert", value, dtype=F32), stored, words, cpu)


@pytest.mark.parametrize("width", ["x86-64-v2", "x86-64-v3"])
@pytest.mark.parametrize("form", ["low, zero point", "low, sign", "high"])
def test_words_are_not_taken_apart_into_bytes(form: str, width: str) -> None:
    """Numbers that the program computes in bytes: to pack lanes and to extend them again takes half of the time."""
    words = np.arange(256, dtype=np.uint32) * np.uint32(0x91A2B3C5)
    stored = hlo.parameter(0, hlo.Shape(U32, (256,)))
    value = stored
    for opcode, constant in FORMS[form]:
        value = op(opcode, value, number(constant, 256, dtype=value.dtype))
        if opcode == "and":
            value = op("convert", value, dtype=S8)
    program = module([stored], op("convert", value, dtype=F32))
    native = NativeSimulation(pipeline.run(program, for_cpu(width, False), Dump()), width)
    (expected,) = evaluate(program, [words])
    np.testing.assert_array_equal(native.run([words])[0], expected)
    conversions = [line for line in str(native.code).splitlines() if "itofp" in line]
    assert any("x i32>" in line for line in conversions)
    assert not any("x i8>" in line for line in conversions)


@of_each_width
@pytest.mark.parametrize("dtype", [S4, U4], ids=str)
@pytest.mark.parametrize("to", [F32, BF16, S32], ids=str)
def test_arrays_of_four_bits(dtype: DType, to: DType, cpu: str) -> None:
    """Also where the other four bits of a byte are not what they should be, and after arithmetic that wraps."""
    words = np.arange(256, dtype=np.uint8)
    stored = hlo.parameter(0, hlo.Shape(dtype, (256,)))
    for extra in (None, "add", "multiply"):
        value = stored if extra is None else op(extra, stored, number(3, 256, dtype=dtype))
        program = module([stored], op("convert", value, dtype=to))
        clean = (words & 15).astype(np.int8)
        clean = np.where(clean > 7, clean - 16, clean) if dtype.is_signed else clean
        (expected,) = evaluate(program, [clean.astype(dtype.numpy)])
        optimised = pipeline.run(program, for_cpu(cpu, False), Dump())
        (got,) = NativeSimulation(optimised, cpu).run([words.view(dtype.numpy)])
        np.testing.assert_array_equal(got, expected)


@of_each_width
def test_converted_to_four_bits(cpu: str) -> None:
    for dtype, narrow in ((S8, S4), (U8, S4), (S32, U4)):
        words = np.arange(256).astype(np.uint8).astype(dtype.numpy)
        stored = hlo.parameter(0, hlo.Shape(dtype, (256,)))
        masked = op("and", stored, number(15, 256, dtype=dtype))
        check(op("convert", op("convert", masked, dtype=narrow), dtype=F32), stored, words, cpu)


class Chain(NamedTuple):
    """A program on integers, and its numbers as NumPy and Python's integers give them."""

    value: hlo.Instruction
    numbers: np.ndarray[Any, np.dtype[np.int64]]

    def then(self, opcode: str, to: DType | int) -> Chain:
        """With a conversion to ``to``, or an operation with the constant ``to``."""
        value, n = self
        if isinstance(to, DType):
            return Chain(op(opcode, value, dtype=to), read_as(n, to))
        constant = number(to, *value.dims, dtype=value.dtype)
        bits = n & ((1 << value.dtype.bits) - 1)
        n = {
            "and": n & to,
            "subtract": n - to,
            "shift-right-logical": bits >> to,
            "shift-right-arithmetic": read_as(n, SIGNED[value.dtype.bits]) >> to,
        }[opcode]
        return Chain(op(opcode, value, constant), read_as(n, value.dtype))

    def floats(self, dtype: DType) -> Chain:
        """As ``dtype``, rounded once, and widened to f32 again."""
        value = op("convert", self.value, dtype=dtype)
        value = value if dtype is F32 else op("convert", value, dtype=F32)
        with np.errstate(over="ignore"):  # f16 ends at 65504
            return Chain(value, self.numbers.astype(F32.numpy).astype(dtype.numpy).astype("f4"))


SIGNED = {4: S4, 8: S8, 16: S16, 32: S32}
UNSIGNED = {4: U4, 8: U8, 16: U16, 32: U32}
INTEGERS = [*SIGNED.values(), *UNSIGNED.values()]


def read_as(numbers: Any, dtype: DType) -> Any:
    """The numbers that the lowest bits of ``numbers`` are in ``dtype``."""
    bits = numbers & ((1 << dtype.bits) - 1)
    return bits - ((bits >> (dtype.bits - 1)) << dtype.bits) if dtype.is_signed else bits


def stored(dtype: DType) -> tuple[Chain, Any]:
    """An array of words with all codes, and its elements."""
    n = np.arange(256, dtype=np.int64)
    n = read_as(n * 0x91A2B3C5 + n if dtype.bits > 8 else n, dtype)
    return Chain(hlo.parameter(0, hlo.Shape(dtype, (256,))), n), n.astype(dtype.numpy)


def check_chains(chains: list[Chain], source: Chain, words: Any, cpu: str) -> None:
    program = module([source.value], *(c.value for c in chains))
    optimised = pipeline.run(program, for_cpu(cpu, False), Dump())
    for got, chain in zip(NativeSimulation(optimised, cpu).run([words]), chains, strict=True):
        np.testing.assert_array_equal(got, chain.numbers, err_msg=str(chain.value))


@of_each_width
@pytest.mark.parametrize("dtype", [U8, S8, U16, S16, U32, S32], ids=str)
def test_one_register_as_two_types(dtype: DType, cpu: str) -> None:
    """The sign is the dtype's that the conversion reads, also where the other one is read, too, or was read before."""
    source, words = stored(dtype)
    other = (UNSIGNED if dtype.is_signed else SIGNED)[dtype.bits]
    low = source.then("and", 15).then("subtract", 8)
    high = source.then("shift-right-arithmetic", dtype.bits - 4)
    chains = []
    for chain in (low, high):
        for opcode in ("bitcast-convert", "convert"):
            changed = chain.then(opcode, other)
            chains += [changed.floats(F32), changed.then("convert", S32).floats(F32)]
            chains += [changed.then("convert", U32).floats(F32)]
            chains += [extremum(f, chain, changed) for f in ("maximum", "minimum")]
    check_chains(chains, source, words, cpu)


@of_each_width
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_random_chains(dtype: DType, cpu: str) -> None:
    rng = random.Random(str(dtype))
    source, words = stored(dtype)
    chains: list[Chain] = []
    while len(chains) < 20:
        values = [source]
        for _ in range(rng.randint(2, 6)):
            values.append(step(rng, values[-1]))
        to = rng.choice([F32, F32, BF16, F16])
        earlier = rng.choice(values)
        which = rng.choice(["maximum", "minimum"])
        chains += [values[-1].floats(to), extremum(which, earlier, values[-1])]
    check_chains(chains, source, words, cpu)


def step(rng: random.Random, chain: Chain) -> Chain:
    bits = chain.value.dtype.bits
    kind = rng.choice(["and", "subtract", "shift", "bitcast-convert", "convert"])
    if kind == "and":
        return chain.then("and", min(rng.choice([15, 15, 7, 12]), (1 << (bits - 1)) - 1))
    if kind == "subtract":
        return chain.then("subtract", rng.randint(0, 7 if bits == 4 else 20))
    if kind == "shift":
        by = rng.choice([bits - 4, bits - 4, 3])
        return chain.then(rng.choice(["shift-right-logical", "shift-right-arithmetic"]), by)
    same = [d for d in INTEGERS if d.bits == bits]
    return chain.then(kind, rng.choice(same if kind == "bitcast-convert" else INTEGERS))


def extremum(opcode: str, a: Chain, b: Chain) -> Chain:
    """The larger or the smaller one of two values as f32, computed in one loop."""
    a, b = a.floats(F32), b.floats(F32)
    numbers = getattr(np, opcode)(a.numbers, b.numbers)
    return Chain(op(opcode, a.value, b.value), numbers)
