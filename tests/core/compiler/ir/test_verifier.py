"""The verifier accepts what is valid (the importer's tests) and names what is not (here)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from tripont.core.compiler.ir import dtypes, hlo, verifier
from tripont.core.compiler.ir.hlo import (
    TOKEN,
    AnyShape,
    Computation,
    DotDimensionNumbers,
    Instruction,
    Metadata,
    Module,
    Shape,
    TupleShape,
    WindowDimension,
)
from tripont.core.compiler.ir.verifier import VerificationError, verify


def f32(*dims: int) -> Shape:
    return Shape(dtypes.F32, dims)


def s32(*dims: int) -> Shape:
    return Shape(dtypes.S32, dims)


def pred(*dims: int) -> Shape:
    return Shape(dtypes.PRED, dims)


def body(
    opcode: str = "add",
    shape: AnyShape | None = None,
    result: AnyShape | None = None,
    name: str = "body",
) -> Computation:
    """A computation of two scalars."""
    shape = shape or f32()
    a, b = hlo.parameter(0, shape, "a"), hlo.parameter(1, shape, "b")
    attributes = {"direction": "LT", "comparison_type": "FLOAT"} if opcode == "compare" else {}
    return Computation.from_root(
        name, (a, b), Instruction(opcode, result or shape, (a, b), attributes, name="r")
    )


def check(
    opcode: str,
    result: AnyShape,
    operands: Sequence[AnyShape],
    attributes: dict[str, Any] | None = None,
    called: Sequence[Computation] = (),
) -> None:
    """Verify a module of one instruction over parameters."""
    parameters = [hlo.parameter(i, shape, f"p{i}") for i, shape in enumerate(operands)]
    root = Instruction(
        opcode, result, parameters, attributes, called, "root", Metadata("jit(f)/op", "model.py", 3)
    )
    verify(Module("m", Computation("main", parameters, [*parameters, root], root)))


_SUM = {"dimensions": (1,)}
_EQ = {"direction": "EQ", "comparison_type": "FLOAT"}
_DOT = {"dimension_numbers": DotDimensionNumbers((1,), (0,)), "precision": ("DEFAULT", "DEFAULT")}
_SLICE = {"starts": (1,), "limits": (4,), "strides": (2,)}
_WINDOW = {"window": (WindowDimension(2, stride=2),)}
_PAD = {"low": (1,), "high": (-1,), "interior": (1,)}
_SORT = {"dimension": 0, "is_stable": True}
_COMPARATOR = body("compare", f32(), pred(), "comparator")

VALID: list[tuple[Any, ...]] = [
    ("add", f32(3), [f32(3), f32(3)]),
    ("compare", pred(3), [f32(3), f32(3)], _EQ),
    ("abs", f32(3), [Shape(dtypes.C64, (3,))]),
    ("complex", Shape(dtypes.C64, (3,)), [f32(3), f32(3)]),
    ("select", f32(3), [pred(), f32(3), f32(3)]),
    ("clamp", f32(3), [f32(), f32(3), f32(3)]),
    ("convert", s32(3), [f32(3)]),
    ("bitcast-convert", Shape(dtypes.U8, (3, 4)), [f32(3)]),
    ("bitcast-convert", f32(3), [Shape(dtypes.U8, (3, 4))]),
    ("broadcast", f32(2, 3), [f32(3)], {"dimensions": (1,)}),
    ("transpose", f32(3, 2), [f32(2, 3)], {"dimensions": (1, 0)}),
    ("slice", f32(2), [f32(5)], _SLICE),
    ("pad", f32(5), [f32(3), f32()], _PAD),
    ("concatenate", f32(7), [f32(3), f32(4)], {"dimension": 0}),
    ("reduce", f32(2), [f32(2, 3), f32()], _SUM, [body()]),
    ("reduce-window", f32(2), [f32(4), f32()], _WINDOW, [body()]),
    ("select-and-scatter", f32(4), [f32(4), f32(2), f32()], _WINDOW, [_COMPARATOR, body()]),
    ("sort", f32(4), [f32(4)], _SORT, [_COMPARATOR]),
    ("topk", TupleShape((f32(2, 3), s32(2, 3))), [f32(2, 8)], {"k": 3, "largest": True}),
    ("dot", f32(2, 4), [f32(2, 3), f32(3, 4)], _DOT),
    ("fft", Shape(dtypes.C64, (2, 5)), [f32(2, 8)], {"fft_type": "RFFT", "fft_length": (8,)}),
    ("tuple", TupleShape((f32(3), TOKEN)), [f32(3), TOKEN]),
    ("optimization-barrier", f32(3), [f32(3)]),
    ("after-all", TOKEN, [TOKEN, TOKEN]),
    ("dynamic-slice", f32(2), [f32(5), s32()], {"slice_sizes": (2,)}),
]


@pytest.mark.parametrize("case", VALID, ids=[f"{i}-{c[0]}" for i, c in enumerate(VALID)])
def test_valid(case: tuple[Any, ...]) -> None:
    check(*case)


INVALID: list[tuple[str, tuple[Any, ...]]] = [
    (
        r"f32\[4\], but its operands and attributes imply f32\[3\]",
        ("add", f32(4), [f32(3), f32(3)]),
    ),
    ("operands' shapes differ", ("add", f32(3), [f32(3), f32(4)])),
    ("subtract does not take pred", ("subtract", pred(3), [pred(3), pred(3)])),
    ("has 1 operands, add takes 2", ("add", f32(3), [f32(3)])),
    ("opcode that does not exist", ("gelu", f32(3), [f32(3)])),
    ("lacks the attribute direction", ("compare", pred(3), [f32(3), f32(3)])),
    ("unknown direction", ("compare", pred(3), [f32(3), f32(3)], {**_EQ, "direction": "=="})),
    ("first operand is not pred", ("select", f32(3), [s32(3), f32(3), f32(3)])),
    ("a bound does not fit", ("clamp", f32(3), [f32(2), f32(3), f32()])),
    ("widths do not fit", ("bitcast-convert", f32(3), [Shape(dtypes.U8, (3, 3))])),
    ("operand dimension 0 differs", ("broadcast", f32(2, 4), [f32(3)], {"dimensions": (1,)})),
    (
        "1 dimensions for an operand of rank 2",
        ("broadcast", f32(2, 3), [f32(2, 3)], {"dimensions": (1,)}),
    ),
    ("number of elements changes", ("reshape", f32(7), [f32(2, 3)])),
    ("not a permutation", ("transpose", f32(3, 2), [f32(2, 3)], {"dimensions": (1, 1)})),
    ("is not inside 3", ("slice", f32(2), [f32(3)], _SLICE)),
    ("not a scalar of the operand's dtype", ("pad", f32(5), [f32(3), s32()], _PAD)),
    ("outside the dimension", ("concatenate", f32(7, 2), [f32(3, 2), f32(4, 1)], {"dimension": 0})),
    ("start index of shape f32", ("dynamic-slice", f32(2), [f32(5), f32()], {"slice_sizes": (2,)})),
    ("slice is larger", ("dynamic-slice", f32(9), [f32(5), s32()], {"slice_sizes": (9,)})),
    ("not distinct", ("reduce", f32(2), [f32(2, 3), f32()], {"dimensions": (2,)}, [body()])),
    ("the body body takes", ("reduce", f32(2), [f32(2, 3), f32()], _SUM, [body(shape=s32())])),
    ("calls 0 computations, reduce calls 1", ("reduce", f32(2), [f32(2, 3), f32()], _SUM)),
    ("gives \\(f32\\[\\]\\), but should give", ("sort", f32(4), [f32(4)], _SORT, [body()])),
    ("k = 9", ("topk", TupleShape((f32(9), s32(9))), [f32(8)], {"k": 9, "largest": True})),
    ("paired dimensions have sizes", ("dot", f32(2, 4), [f32(2, 3), f32(5, 4)], _DOT)),
    ("window does not have", ("reduce-window", f32(2), [f32(4, 4), f32()], _WINDOW, [body()])),
    (
        "RFFT takes a real",
        ("fft", f32(2), [Shape(dtypes.C64, (2,))], {"fft_type": "RFFT", "fft_length": (2,)}),
    ),
    ("operand is not a tuple", ("get-tuple-element", f32(), [f32()], {"index": 0})),
    ("an operand is not a token", ("after-all", TOKEN, [f32()])),
    ("operand 0 is not an array", ("negate", f32(), [TOKEN])),
    ("operands or attributes do not fit", ("transpose", f32(3), [f32(3)], {"dimensions": None})),
]


@pytest.mark.parametrize(
    ("message", "case"), INVALID, ids=[f"{i}-{c[1][0]}" for i, c in enumerate(INVALID)]
)
def test_invalid(message: str, case: tuple[Any, ...]) -> None:
    with pytest.raises(VerificationError, match=message) as caught:
        check(*case)
    assert caught.value.code == "INTERNAL"


def test_message_names_instruction_and_source() -> None:
    with pytest.raises(VerificationError) as caught:
        check("add", f32(4), [f32(3), f32(3)])
    assert str(caught.value) == (
        "%root = add(f32[3], f32[3]) -> f32[4]: has the shape f32[4], but its operands and attributes imply f32[3]"
        " (jit(f)/op at model.py:3) in computation main"
    )


# -------------------------------------------------------------------------------------------------------- structure


def _chain() -> tuple[Instruction, Instruction, Instruction]:
    a = hlo.parameter(0, f32(3), "a")
    b = Instruction("sine", f32(3), (a,), name="b")
    return a, b, Instruction("cosine", f32(3), (b,), name="c")


def _fails(computation: Computation, message: str, **fields: Any) -> None:
    with pytest.raises(VerificationError, match=message):
        verify(Module("m", computation, **fields), after="some_pass")


def test_operand_after_user() -> None:
    a, b, c = _chain()
    _fails(Computation("main", (a,), (a, c, b), c), "does not stand before it.*after some_pass")


def test_instruction_listed_twice() -> None:
    a, b, c = _chain()
    _fails(Computation("main", (a,), (a, b, b, c), c), "listed twice")


def test_equal_names() -> None:
    a, b, c = _chain()
    c.name = "b"
    _fails(Computation("main", (a,), (a, b, c), c), "two instructions are named b")


def test_root_elsewhere() -> None:
    a, b, c = _chain()
    _fails(Computation("main", (a,), (a, b), c), "root .* is not among")


def test_parameter_numbering() -> None:
    a, b, c = _chain()
    other = hlo.parameter(0, f32(3), "other")
    _fails(Computation("main", (a, other), (a, other, b, c), c), "has index 0, but stands at 1")
    _fails(Computation("main", (a,), (a, other, b, c), c), "2 parameter instructions, 1 parameters")


def test_equal_computation_names() -> None:
    scalar = hlo.parameter(0, f32(), "s")
    calls = [
        Instruction("call", f32(), (scalar, scalar), {}, (body(),), name=f"call{i}")
        for i in range(2)
    ]
    root = Instruction("add", f32(), calls, name="root")
    _fails(
        Computation("main", (scalar,), (scalar, *calls, root), root),
        "two computations are named body",
    )


def test_writable_literal() -> None:
    literal = np.zeros(3, np.float32)
    constant = Instruction("constant", f32(3), (), {"literal": literal}, name="c")
    _fails(Computation("main", (), (constant,), constant), "literal is writable")


def test_aliases_and_memory_kinds() -> None:
    a, b, c = _chain()
    computation = Computation("main", (a,), (a, b, c), c)
    _fails(computation, "do not both exist", input_output_aliases=((1, 0, False),))
    _fails(
        computation, "result 0 has two aliases", input_output_aliases=((0, 0, False), (0, 0, True))
    )
    _fails(computation, "2 parameter memory kinds", parameter_memory_kinds=("device", "device"))
    verify(Module("m", computation, ((0, 0, False),), parameter_memory_kinds=("pinned_host",)))


def test_while_must_keep_its_state() -> None:
    state = f32(3)
    a = hlo.parameter(0, state, "a")
    p, q = hlo.parameter(0, state, "p"), hlo.parameter(0, state, "q")
    always = hlo.constant(np.bool_(True))
    always.name = "always"
    condition = Computation("condition", (p,), (p, always), always)
    wrong = Instruction("convert", s32(3), (q,), name="wrong")
    loop_body = Computation("loop_body", (q,), (q, wrong), wrong)
    loop = Instruction("while", state, (a,), {}, (condition, loop_body), "loop")
    _fails(Computation("main", (a,), (a, loop), loop), r"the body loop_body gives \(s32\[3\]\)")


def test_switched_on_in_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRIPONT_VERIFY", raising=False)
    assert verifier.enabled()
    monkeypatch.setenv("TRIPONT_VERIFY", "0")
    assert not verifier.enabled()
    monkeypatch.setenv("TRIPONT_VERIFY", "1")
    assert verifier.enabled()
