"""Messages of compile errors."""

from __future__ import annotations

import pickle

from tripont.core.compiler.ir import dtypes, errors, hlo
from tripont.core.compiler.ir.errors import STATUS_CODES, CompileError
from tripont.core.compiler.ir.hlo import Instruction, Metadata, Shape

F32 = Shape(dtypes.F32, (3,))


def test_message_names_everything() -> None:
    error = errors.unimplemented(
        "not yet",
        op="dot",
        shapes=[F32, F32],
        result=F32,
        metadata=Metadata("jit(f)/dot", "model.py", 4),
    )
    assert error.code == "UNIMPLEMENTED"
    assert error.status == 12
    assert str(error) == "dot(f32[3], f32[3]) -> f32[3]: not yet (jit(f)/dot at model.py:4)"


def test_message_says_only_what_is_known() -> None:
    assert str(errors.invalid_argument("bad")) == "bad"
    assert str(errors.internal("bad", op="dot")) == "dot: bad"
    assert str(errors.resource_exhausted("too big")) == "too big"
    assert str(errors.invalid_argument("bad", metadata=Metadata())) == "bad"


def test_of_instruction() -> None:
    a = hlo.parameter(0, F32, "a")
    instruction = Instruction("sine", F32, (a,), name="s", metadata=Metadata("", "model.py", 4))
    error = errors.of_instruction("RESOURCE_EXHAUSTED", "too big", instruction)
    assert error.status == STATUS_CODES["RESOURCE_EXHAUSTED"]
    assert str(error) == "sine %s(f32[3]) -> f32[3]: too big (model.py:4)"


def test_unknown_code_is_internal() -> None:
    assert CompileError("NO_SUCH_CODE", "x").code == "INTERNAL"


def test_errors_can_be_pickled() -> None:
    copy = pickle.loads(pickle.dumps(CompileError("INVALID_ARGUMENT", "x")))
    assert (copy.code, str(copy)) == ("INVALID_ARGUMENT", "x")
