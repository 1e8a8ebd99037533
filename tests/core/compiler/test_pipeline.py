"""The list of stages: its types fit, each law finds what breaks it, and what stages made is dumped and timed."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from tripont.core.compiler import laws, pipeline
from tripont.core.compiler.compile import compile_module, compile_program
from tripont.core.compiler.ir import dtypes
from tripont.core.compiler.ir.errors import CompileError
from tripont.core.compiler.ir.hlo import (
    AUTO_LAYOUT,
    TOKEN,
    Computation,
    Instruction,
    Module,
    Shape,
    TupleShape,
    constant,
    parameter,
)
from tripont.core.compiler.ir.verifier import VerificationError
from tripont.core.compiler.memory import buffers
from tripont.core.compiler.observe.dump import Dump
from tripont.core.compiler.stages import Emitted
from tripont.core.compiler.targets.host import for_cpu
from tripont.core.compiler.thunks import lowering

from tests.core.compiler.simulate import Simulation

F32 = Shape(dtypes.F32, (8,))
X = parameter(0, F32)


def module(*results: Instruction) -> Module:
    root = results[0]
    if len(results) > 1:
        root = Instruction("tuple", TupleShape(tuple(r.shape for r in results)), results)  # type: ignore[arg-type]
    return Module("m", Computation.from_root("main", [X], root))


def test_each_stage_takes_what_the_one_before_gives() -> None:
    assert pipeline.STAGES[0].takes is pipeline.Program
    assert pipeline.STAGES[-1].gives is bytes
    for before, after in pairwise(pipeline.STAGES):
        assert after.takes is before.gives, (before.name, after.name)


def test_laws_are_of_passes_in_the_list() -> None:
    assert set(pipeline.LAWS) <= set(pipeline.PASSES)
    assert set(pipeline.PASSES) >= pipeline.TARGET_PASSES


def _loop(body: Computation) -> Instruction:
    condition = Computation.from_root("condition", [parameter(0, F32)], constant(np.bool_(True)))
    return Instruction("while", TupleShape((F32,)), (X,), {}, (condition, body))


def _shared_body() -> Module:
    inside = parameter(0, F32)
    body = Computation.from_root(
        "body", [inside], Instruction("tuple", TupleShape((F32,)), (inside,))
    )
    loops = [_loop(body), _loop(body)]
    return module(*(Instruction("get-tuple-element", F32, (l,), {"index": 0}) for l in loops))


BROKEN = {
    "token": (laws.entry_without_tokens, lambda: module(X, Instruction("after-all", TOKEN))),
    "size": (
        laws.without("get-dimension-size"),
        lambda: module(
            Instruction("get-dimension-size", Shape(dtypes.S32, ()), (X,), {"dimension": 0})
        ),
    ),
    "layout": (
        laws.known_layouts,
        lambda: replace(module(X), result_layouts=(AUTO_LAYOUT,)),
    ),
    "barrier": (
        laws.without("optimization-barrier"),
        lambda: module(Instruction("optimization-barrier", F32, (X,))),
    ),
    "shared": (laws.control_flow_unshared, _shared_body),
    "no kernel": (laws.runs_as_thunks, lambda: module(Instruction("cholesky", F32, (X,)))),
    "no emitter": (
        laws.runs_as_thunks,
        lambda: module(Instruction("fusion", F32, (X,), {"kind": "none"}, (module(X).entry,))),
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_laws(name: str) -> None:
    law, broken = BROKEN[name]
    law(module(Instruction("negate", F32, (X,))), "a_pass")
    with pytest.raises(VerificationError, match="a_pass"):
        law(broken(), "a_pass")


def test_a_pass_that_breaks_an_older_law_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def bring_back_a_barrier(before: Module) -> Module:
        barrier = Instruction("optimization-barrier", F32, (before.entry.root,))
        return replace(before, entry=Computation.from_root("main", [X], barrier))

    passes = (pipeline.remove_barriers, pipeline.simplify, bring_back_a_barrier)
    with pytest.raises(VerificationError, match="after bring_back_a_barrier"):
        pipeline.run(module(Instruction("negate", F32, (X,))), for_cpu(), Dump(), passes)


def test_a_function_that_was_not_written() -> None:
    fused = pipeline.run(module(Instruction("negate", F32, (X,))), for_cpu(), Dump())
    lowered = lowering.lower(fused, buffers.assign(fused), for_cpu().costs.library)
    lowered.symbols = [""]
    with pytest.raises(CompileError, match="was not written"):
        laws.all_written(Emitted(lowered, None, None))  # type: ignore[arg-type]


def test_lowering_wants_each_function_once() -> None:
    negated = Instruction("negate", F32, (X,))
    other = parameter(1, F32)
    results = (negated, Instruction("negate", F32, (other,)))
    root = Instruction("tuple", TupleShape((F32, F32)), results)
    before = Module("m", Computation.from_root("main", [X, other], root))
    simulation = Simulation(pipeline.run(before, for_cpu(), Dump()))
    wanted = simulation.lowered.wanted
    assert len(wanted) == len(simulation.lowered.symbols)
    assert len({w.name for w in wanted}) == len(wanted)
    x, y = np.arange(8, dtype=np.float32), np.ones(8, np.float32)
    for actual, expected in zip(simulation.run([x, y]), (-x, -y), strict=True):
        np.testing.assert_array_equal(actual, expected)


def test_values_that_are_not_arrays_are_refused() -> None:
    pair = parameter(0, TupleShape((F32, F32)))
    root = Instruction("get-tuple-element", F32, (pair,), {"index": 0})
    with pytest.raises(CompileError, match="only arrays are supported"):
        compile_module(Module("m", Computation.from_root("main", [pair], root)))


def test_stages_and_passes_are_timed(tmp_path: Path) -> None:
    program = b"""module @m { func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
      %0 = stablehlo.sine %a : tensor<4xf32>
      return %0 : tensor<4xf32>
    } }"""
    data = compile_program(program, "mlir", b"", {"dump_to": str(tmp_path)})
    (path,) = tmp_path.glob("*.module.json")
    described = json.loads(path.read_text())
    assert [s["name"] for s in described["stages"]] == [s.name for s in pipeline.STAGES]
    assert all(s["milliseconds"] > 0 for s in described["stages"])
    optimise = next(s for s in described["stages"] if s["name"] == "optimise")
    assert 0 < sum(p["milliseconds"] for p in described["passes"]) <= optimise["milliseconds"]
    (artifact,) = tmp_path.glob("*.tripont")
    assert artifact.read_bytes() == data
    assert described["files"]["tripont"] == artifact.name
