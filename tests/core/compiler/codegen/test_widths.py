"""Kernels that are the same for all CPUs with vectors of one length: their tests run on one CPU of each."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator

import pytest
from tripont.core.compiler import pipeline
from tripont.core.compiler.ir import dtypes, hlo
from tripont.core.compiler.observe.dump import Dump
from tripont.core.compiler.targets.host import for_cpu

from tests.core.compiler.builders import module, number, op
from tests.core.compiler.codegen.elements.test_nibbles import FORMS as OF_FOUR_BITS
from tests.core.compiler.codegen.kernels import test_attention as attention
from tests.core.compiler.codegen.kernels import test_few_rows as few_rows
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
    shapes = [*zip((1, 5, 8, 3), few_rows.SHAPES, strict=True)] * 2
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
    "programs", [of_few_rows, of_attention, of_words, of_extrema], ids=lambda f: f.__name__
)
def test_cpus_with_vectors_of_one_length_have_the_same_kernels(
    programs: Callable[[], Iterator[hlo.Module]],
) -> None:
    for number_, before in enumerate(programs()):
        texts = defaultdict(set)
        for cpu in CPUS:
            target = for_cpu(cpu, False)
            text = str(Written(pipeline.run(before, target, Dump()), cpu).code)
            # What differs is for LLVM: the CPU for which it orders instructions.
            texts[target.vector_bytes].add(re.sub("attributes #.*", "", text))
        assert len(texts) >= 3, "x86-64-v2, v3 and v4 have vectors of other lengths"
        several = {length: len(found) for length, found in texts.items() if len(found) > 1}
        assert several == {}, number_
