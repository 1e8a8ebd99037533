"""Programs for machines with many threads: more units of work, and the same numbers."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tripont.core import _tripont
from tripont.core.compiler.compile import compile_module
from tripont.core.compiler.formats import artifact
from tripont.core.compiler.formats.artifact import Kernel, deserialize
from tripont.core.compiler.ir import dtypes
from tripont.core.compiler.ir.dtypes import DType
from tripont.core.compiler.ir.errors import CompileError
from tripont.core.compiler.ir.hlo import DotDimensionNumbers, Module
from tripont.core.compiler.targets import from_options

from tests.core.compiler.builders import module, op, parameter
from tests.core.compiler.codegen.kernels.test_convolution import SAME, convolution

DOT = """func.func @main(%x: tensor<1x520xf32>, %y: tensor<520x4096xf32>) -> tensor<1x4096xf32> {
  %z = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0]
    : (tensor<1x520xf32>, tensor<520x4096xf32>) -> tensor<1x4096xf32>
  return %z : tensor<1x4096xf32>
}"""
CPU = os.environ.get("TRIPONT_CPU") or "host"


def product(m: int, n: int, k: int, dtype: DType = dtypes.F64) -> Module:
    lhs, rhs = parameter(0, m, k, dtype=dtype), parameter(1, k, n, dtype=dtype)
    numbers = DotDimensionNumbers((1,), (0,))
    given = {"dimension_numbers": numbers, "precision": ("DEFAULT", "DEFAULT")}
    return module([lhs, rhs], op("dot", lhs, rhs, dims=(m, n), dtype=dtype, **given))


def convolved() -> Module:
    made = convolution({"N": 2, "C": 28, "O": 256, "H": 32, "W": 32}, SAME, dtype=dtypes.F64)
    return module(list(made.operands), made)


PROGRAMS: dict[str, Callable[[], Module]] = {
    "rows streamed": lambda: product(3, 4096, 520, dtypes.F32),
    "packed": lambda: product(600, 640, 300),
    "convolution": convolved,
    "complex": lambda: product(400, 320, 200, dtypes.C64),
}


def run(made: Module, threads: int) -> tuple[np.ndarray[Any, Any], int]:
    """The program's result, compiled for ``threads``, and the most units of work that a kernel of it has."""
    compiled = compile_module(made, {"cpu": CPU, "onednn": "0", "threads": str(threads)})
    units = max(t.work_count for t in compiled.thunks if isinstance(t, Kernel))
    random = np.random.default_rng(0)
    device = _tripont.Client({"prestart_worker": False}).devices[0]
    arrays = [random.standard_normal(p.dims).astype(p.dtype.numpy) for p in made.entry.parameters]
    buffers = [_tripont.Buffer.from_array(a, device) for a in arrays]
    executable = _tripont.Executable.load(artifact.serialize(compiled))
    (result,) = executable.execute(device, buffers)
    return np.asarray(result.numpy()), units


@pytest.mark.parametrize("name", PROGRAMS)
def test_more_units_and_the_same_numbers(name: str) -> None:
    few, units = run(PROGRAMS[name](), 4)
    many, more = run(PROGRAMS[name](), 64)
    assert more > units or units >= 64
    assert more >= 16
    np.testing.assert_array_equal(many, few)


def test_powers_of_two_tell_programs_apart() -> None:
    made_for = {n: from_options({"threads": str(n)}).fingerprint for n in (1, 2, 4, 7, 8, 15, 16)}
    assert made_for[4] == made_for[7] == from_options({}).fingerprint
    assert made_for[8] == made_for[15]
    assert len({*made_for.values()}) == 5


def test_few_threads_give_the_same_numbers() -> None:
    """Their units are larger where they read for long (tests/core/compiler/codegen/kernels/test_matrix_dot.py)."""
    made = product(128, 128, 8192, dtypes.BF16)
    one, two, four = (run(made, threads)[0] for threads in (1, 2, 4))
    np.testing.assert_array_equal(one, four)
    np.testing.assert_array_equal(two, four)


@pytest.mark.parametrize("text", ["0", "-1", "many", "1.5", "99999", "9" * 5000])
def test_what_is_no_number_of_threads(text: str) -> None:
    with pytest.raises(CompileError, match=rf"option threads is '{text}'.* from 1 to 65536"):
        from_options({"threads": text})


def test_clients_tell_how_many_threads_there_are() -> None:
    """(Of four to seven threads they say nothing.)"""
    client = _tripont.Client({"cache": False})

    def units(options: dict[str, str]) -> int:
        data, _ = client.compile(DOT.encode(), options=options)
        return max(t.work_count for t in deserialize(data).thunks if isinstance(t, Kernel))

    assert units({}) == units({"threads": str(len(os.sched_getaffinity(0)))})
    assert units({"threads": "64"}) > units({"threads": "4"})

    # A product of few rows and columns with a long sum; AMX cuts it for two threads, or one, otherwise than for four.
    # (Where oneDNN computes it there is no kernel.)
    long = """func.func @main(%x: tensor<128x8192xbf16>, %y: tensor<8192x128xbf16>) -> tensor<128x128xf32> {
      %z = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0]
        : (tensor<128x8192xbf16>, tensor<8192x128xbf16>) -> tensor<128x128xf32>
      return %z : tensor<128x128xf32>
    }"""

    def last(options: dict[str, str]) -> list[int]:
        data, _ = client.compile(long.encode(), options=options)
        return [t.work_count for t in deserialize(data).thunks if isinstance(t, Kernel)][-1:]

    assert last({}) == last({"threads": str(len(os.sched_getaffinity(0)))})
