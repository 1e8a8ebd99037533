"""Kernels that are the same for all CPUs with vectors of one length: their tests run on one CPU of each."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator

import pytest
from tripont.core.compiler import pipeline
from tripont.core.compiler.ir import dtypes, hlo
from tripont.core.compiler.ir.dtypes import DType
from tripont.core.compiler.observe.dump import Dump
from tripont.core.compiler.targets.host import for_cpu

from tests.core.compiler.builders import module, number, op
from tests.core.compiler.codegen.elements.test_nibbles import FORMS as OF_FOUR_BITS
from tests.core.compiler.codegen.kernels import test_attention as attention
from tests.core.compiler.codegen.kernels import test_attention_gradient as attention_gradient
from tests.core.compiler.codegen.kernels import test_few_rows as few_rows
from tests.core.compiler.codegen.kernels import test_fft as fft
from tests.core.compiler.codegen.kernels import test_packed_dot as packed_dot
from tests.core.compiler.codegen.kernels.test_packed_dot import CPUS, product
from tests.core.compiler.simulate import Simulation
from tests.core.compiler.test_native import NativeSimulation

U8, U32, F32, F64 = dtypes.U8, dtypes.U32, dtypes.F32, dtypes.F64


class Written(NativeSimulation):
    """The text of a program's kernels, which nothing compiles."""

    def __init__(self, module: hlo.Module, cpu: str) -> None:
        self.target = for_cpu(cpu, False)
        self.code = self.target.module()
        Simulation.__init__(self, module)


def of_few_rows() -> Iterator[hlo.Module]:
    # Up to 4 rows of bf16, which are streamed on every CPU: a Zen 4 multiplies more in pairs.
    shapes = [*zip((1, 5, 4, 3), few_rows.SHAPES, strict=True)] * 2
    for types, (m, (n, k, transposed)) in zip(few_rows.FLOATS, shapes, strict=False):
        made = product(types[:2], types[2], m, n, k, (False, transposed))
        yield module(made.operands, made)
    for form, stored in (("shifts", U32), ("apart", U8), ("five", U8), ("given", U32)):
        for m, transposed in ((1, False), (5, True)):
            matrix, parameters = few_rows.unpacked(stored, 528, 1032, 1, transposed, form)
            made = product((F32, F32), F32, m, 528, 1032, (False, transposed))
            root = made.replace(operands=[made.operands[0], matrix])
            yield module([made.operands[0], *parameters], root)


def of_attention() -> Iterator[hlo.Module]:
    for form in ("causal", "around"):
        yield attention.read(attention.FORMS[form][0], attention.heads(2, 70, 83, 40))


def of_gradients() -> Iterator[hlo.Module]:
    for form in ("causal", "around"):
        for sizes in attention_gradient.INSTRUCTION_SETS:
            function, values, _ = attention_gradient.case(form, *sizes)
            yield attention.read(attention_gradient.gradients(function), values)


def of_transforms() -> Iterator[hlo.Module]:
    yield from map(fft.program, fft.of_each_kind())


def of_words() -> Iterator[hlo.Module]:
    stored = hlo.parameter(0, hlo.Shape(U8, (256,)))
    for form in OF_FOUR_BITS.values():
        value = stored
        for opcode, constant in form:
            value = op(opcode, value, number(constant, 256, dtype=U8))
        yield module([stored], op("convert", value, dtype=F32))


def of_extrema() -> Iterator[hlo.Module]:
    for dtype in (F32, F64):
        operands = [hlo.parameter(n, hlo.Shape(dtype, (99,))) for n in range(2)]
        for opcode in ("maximum", "minimum"):
            yield module(operands, op(opcode, *operands))


@pytest.mark.parametrize(
    "programs",
    [of_few_rows, of_attention, of_gradients, of_transforms, of_words, of_extrema],
    ids=lambda f: f.__name__,
)
def test_cpus_with_vectors_of_one_length_have_the_same_kernels(
    programs: Callable[[], Iterator[hlo.Module]],
) -> None:
    for number_, before in enumerate(programs()):
        texts = defaultdict(set)
        for cpu in CPUS:
            memory = for_cpu(cpu).costs.memory
            if programs is of_few_rows and (memory.streamed_row or memory.streamed_run):
                continue  # they read a matrix in another order: test_contraction.py has it
            texts[for_cpu(cpu).vector_bytes].add(text_of(before, cpu))
        assert len(texts) >= 3, "x86-64-v2, v3 and v4 have vectors of other lengths"
        several = {length: len(found) for length, found in texts.items() if len(found) > 1}
        assert several == {}, number_


def text_of(before: hlo.Module, cpu: str) -> str:
    """A program's kernels, without what is for LLVM alone: the CPU for which it orders instructions."""
    text = str(Written(pipeline.run(before, for_cpu(cpu, False), Dump()), cpu).code)
    return re.sub("attributes #.*", "", text)


@pytest.mark.parametrize(
    "types", [*packed_dot.INTEGERS, *packed_dot.FLOATS], ids=lambda t: "-".join(map(str, t))
)
def test_packed_products_of_cpus_that_are_left_out_are_those_of_others(
    types: tuple[DType, ...],
) -> None:
    """As test_packed_dot.py runs them: with Intel's host where this CPU is another."""
    shorter = types[1] in (dtypes.S8, U8, dtypes.S16)
    run = packed_dot.OF_INTEGERS if shorter else packed_dot.OF_FLOATS
    for m, n, k in packed_dot.SHAPES[:2]:
        made = product(types[:2], types[2] if len(types) > 2 else dtypes.S32, m, n, k)
        before = module(made.operands, made)
        texts = {text_of(before, "emeraldrapids" if c == "host" else c) for c in run}
        for cpu in CPUS:
            assert cpu == "host" or text_of(before, cpu) in texts, (cpu, m, n, k)
