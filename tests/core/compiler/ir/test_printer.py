"""HLO text: exact text of small things, and XLA's own parser as the judge of whole programs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tripont.core.compiler.importer import read_program
from tripont.core.compiler.ir import dtypes, hlo
from tripont.core.compiler.ir.hlo import Computation, Instruction, Metadata, Module, Shape
from tripont.core.compiler.ir.printer import print_instruction, print_literal, print_module

from tests.core.compiler.importer import jax_programs, oracle


def _module() -> Module:
    shape = Shape(dtypes.F32, (2,))
    a, b = hlo.parameter(0, shape, "a"), hlo.parameter(1, shape, "b")
    place = Metadata('jit(f)/"add"', "model.py", 7)
    total = Instruction("add", shape, (a, b), metadata=place)
    root = Instruction("tuple", hlo.TupleShape((shape, shape)), (total, a))
    entry = Computation.from_root("main", (a, b), root)
    entry.assign_names()
    return Module(
        "jit_f", entry, ((0, 1, False), (1, 0, True)), (1,), frontend_attributes={"k": "v"}
    )


def test_module() -> None:
    assert print_module(_module()) == (
        "HloModule jit_f, input_output_alias={ {0}: (1, {}, may-alias), {1}: (0, {}, must-alias) },"
        " buffer_donor={ (1, {}) }, entry_computation_layout={(f32[2], f32[2])->(f32[2], f32[2])},"
        ' frontend_attributes={k="v"}\n'
        "\n"
        "ENTRY %main (a: f32[2], b: f32[2]) -> (f32[2], f32[2]) {\n"
        "  %a = f32[2] parameter(0)\n"
        "  %b = f32[2] parameter(1)\n"
        '  %add = f32[2] add(%a, %b), metadata={op_name="jit(f)/\\"add\\"" source_file="model.py" source_line=7}\n'
        "  ROOT %tuple = (f32[2], f32[2]) tuple(%add, %a)\n"
        "}\n"
    )


def test_metadata_can_be_left_out() -> None:
    assert "metadata" not in print_module(_module(), metadata=False)


@pytest.mark.parametrize(
    ("value", "dtype", "text"),
    [
        (1.0, dtypes.F32, "1"),
        (0.1, dtypes.F32, "0.1"),
        (0.1, dtypes.F64, "0.1"),
        (1e-7, dtypes.F64, "1e-07"),
        (-0.0, dtypes.F32, "-0"),
        (np.inf, dtypes.BF16, "inf"),
        (-np.inf, dtypes.F32, "-inf"),
        (np.nan, dtypes.F16, "nan"),
        (3.390625, dtypes.BF16, "3.390625"),
        (-3, dtypes.S4, "-3"),
        (True, dtypes.PRED, "true"),
        (1 + 2j, dtypes.C64, "(1, 2)"),
    ],
)
def test_scalars(value: object, dtype: dtypes.DType, text: str) -> None:
    assert print_literal(np.array(value).astype(dtype.numpy), dtype) == text


def test_arrays() -> None:
    matrix = np.arange(4, dtype=np.int32).reshape(2, 2)
    assert print_literal(matrix, dtypes.S32) == "{ {0, 1}, {2, 3} }"
    large = np.zeros((100,), np.float32)
    assert print_literal(large, dtypes.F32) == "{...}"
    assert print_literal(large, dtypes.F32, large=True).count("0") == 100


def _first(opcode: str, program: tuple[Any, ...]) -> str:
    function, *arguments = program
    text = oracle.program_text(oracle.lower(function, *arguments))
    module = read_program(text.encode(), "mlir")
    found = next(i for c in module.computations() for i in c.instructions if i.opcode == opcode)
    return print_instruction(found, metadata=False)


def test_convolution() -> None:
    assert _first("convolution", jax_programs.CONTRACTIONS["convolution_all_options"]) == (
        "%convolution = f32[2,3,15,4] convolution(%arg0, %arg1),"
        " window={size=3x3 stride=2x1 pad=1_1x0_2 lhs_dilate=1x2 rhs_dilate=2x1}, dim_labels=b01f_01io->b01f"
    )


def test_gather() -> None:
    text = _first("gather", jax_programs.DATA_MOVEMENT["gather_with_batching_dims"])
    assert "operand_batching_dims={0}, start_indices_batching_dims={0}, index_vector_dim=2" in text
    assert "slice_sizes={1,1}" in text


def test_slice_and_pad() -> None:
    assert "slice={[1:3], [0:5:2]}" in _first("slice", jax_programs.DATA_MOVEMENT["slice"])
    assert "padding=1_2_1x-1_0" in _first("pad", jax_programs.DATA_MOVEMENT["pad"])


def test_control_flow_names_its_computations() -> None:
    text = _first("while", jax_programs.CONTROL_FLOW["while"])
    assert "condition=%while_condition, body=%while_body" in text
    text = _first("conditional", jax_programs.CONTROL_FLOW["switch"])
    assert "branch_computations={%branch, %branch.1, %branch.2}" in text


# Our control flow has its state as separate operands, which XLA's text does not know.
_FLATTENED = {"while", "conditional", "optimization-barrier"}


@pytest.mark.parametrize("family", ["elementwise", "data_movement", "reductions", "contractions"])
def test_xla_parses_the_text(family: str) -> None:
    parsed = 0
    for function, *arguments in jax_programs.FAMILIES[family].values():
        text = oracle.program_text(oracle.lower(function, *arguments))
        module = read_program(text.encode(), "mlir")
        if _FLATTENED & {i.opcode for c in module.computations() for i in c.instructions}:
            continue
        oracle.parse_hlo_text(print_module(module, large_constants=True))
        parsed += 1
    assert parsed > 5
