"""Configurations: one for an op, a dtype and an edge of its attributes or shapes.

``case`` adds one; the ``cases_*`` modules hold them. ``REFUSED`` lists what is refused, and why that is right.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tripont.core.compiler.ir import dtypes
from tripont.core.compiler.ir.dtypes import DType

from tests.conformance.compare import ulps
from tests.conformance.programs import element

Arrays = list[np.ndarray]
Judge = Callable[..., Any]


@dataclass(frozen=True)
class Case:
    """One configuration.

    ``judge``: None for the reference interpreter, else a function of the arguments that gives the result or a tuple of
    them. ``limit``: the largest distance allowed, in ulps. ``zero_signs``: whether the sign of a zero result counts.
    ``scale``: for sums, a function of the arguments that gives the size of the sum of absolute values, whose last place
    is then the unit. ``refused``: a part of the message with which the compiler must refuse the program.
    """

    op: str
    variant: str
    dtype: str
    program: str
    arguments: Sequence[np.ndarray]
    judge: Judge | None = None
    limit: float = 0.0
    zero_signs: bool = True
    scale: Judge | None = None
    refused: str = ""
    slow: bool = False

    @property
    def name(self) -> str:
        return "-".join(part for part in (self.op, self.variant, self.dtype) if part)


CASES: list[Case] = []
# Element types that XLA of the oldest jaxlib that tests run with does not have.
_NOT_IN_XLA = (dtypes.F6E2M3FN, dtypes.F6E3M2FN)


def case(
    op: str, variant: str, dtype: DType | str, program: str, arguments: Sequence[Any], **more: Any
) -> None:
    """Add a configuration; see :class:`Case`."""
    name = dtype if isinstance(dtype, str) else dtype.name
    arrays = [np.asarray(a) for a in arguments]
    CASES.append(Case(op, variant, name, program, tuple(arrays), **more))


@dataclass
class Outcome:
    """What came of a configuration: ``distance`` in ulps, or ``message`` of a refusal; ``how`` it was done."""

    distance: float = 0.0
    how: str = ""
    message: str = ""
    detail: str = ""


def run_case(case: Case, hlo: bool = False, on: int = 0) -> Outcome:
    """Compile, run and judge. Raises CompileError for a program that is refused and should not be.

    ``hlo``: hand the program over as an HloModuleProto. ``on``: the device that runs it, 0 or 1.
    """
    from tripont.core._tripont import StatusError
    from tripont.core.compiler.ir.errors import CompileError

    from tests.conformance import compare, device, reference

    try:
        as_hlo = hlo or device.is_hlo_text(case.program)
        program = device.as_hlo(case.program) if as_hlo else case.program
        executable = device.compile_program(program)
        actual = device.run(executable, case.arguments, on)
    except (CompileError, StatusError) as error:
        if case.refused:
            return Outcome(message=str(error))
        raise
    types = [v.shape.dtype for v in executable.results[: len(actual)]]
    if case.judge is None:
        shapes = [v.shape for v in executable.results]
        expected = reference.interpret(case.program, case.arguments, shapes)
    else:
        judged = case.judge(*case.arguments)
        expected = list(judged) if isinstance(judged, tuple | list) else [judged]
        with np.errstate(all="ignore"):
            expected = [np.asarray(e).astype(t.numpy) for e, t in zip(expected, types, strict=True)]
    scale = case.scale(*case.arguments) if case.scale is not None else None
    outcome = Outcome(how=device.how_done(executable))
    for n, (a, e) in enumerate(zip(actual, expected, strict=True)):
        part = scale[n] if isinstance(scale, tuple) else scale
        distance = ulps(a, e, case.zero_signs, part)
        outcome.distance = max(outcome.distance, distance)
        if distance > case.limit and not outcome.detail:
            outcome.detail = f"result {n}: {compare.worst(a, e, list(case.arguments), case.limit)}"
    return outcome


def load() -> list[Case]:
    """All configurations; loads their modules at the first call."""
    from tests.conformance import (  # noqa: F401
        cases_contraction,
        cases_control,
        cases_data,
        cases_edges,
        cases_elementwise,
        cases_hlo,
        cases_quantized,
        cases_reduction,
        cases_types,
    )

    return CASES


# Operations of the dialects that have no configuration, and why.
WITHOUT_CASES: dict[str, str] = {
    "async_start": "jaxlib's parser takes none: its properties cannot be written; see hlo.all-reduce-start",
    "async_done": "needs the value of an async_start; see hlo.all-reduce-start",
    "collective_reduce": "StableHLO 1.19 and later; see tests/integration/test_newer_stablehlo.py",
    "chlo._asin_acos_kernel": "an inner step of chlo's own expansion; asin and acos are supported",
}

# Operations whose configurations HLO cannot say: XLA refuses to convert them. Words that their names begin with.
NOT_IN_HLO: dict[str, str] = {
    "unary_einsum": "StableHLO alone has it, as a short form",
    "dynamic_conv": "its padding is an operand, which HLO has only as an attribute",
    "dynamic_reshape-unknown_type": "its type has no bounds",
    "dynamic_iota-unknown_type": "its type has no bounds",
    "get_dimension_size-unknown_type": "its type has no bounds",
    "reduce-no_dimension": "XLA leaves out the initial value",
    "cbrt-c": "HLO has it for real numbers alone",
    "convert-to_pred-f8e8m0fnu": "XLA compares with the smallest number, as the type has no zero",
}

# Opcodes of ours that StableHLO has under another name, or that passes make.
OPCODES_COVERED_AS: dict[str, str] = {
    "bitcast": "made by passes for a reshape",
    "call": "func.call",
    "conditional": "if, case",
    "copy": "return (a result that is an argument)",
    "custom-call": "custom_call",
    "dot": "dot_general",
    **{name: f"chlo.{name}" for name in ("acos", "asin", "cosh", "erf", "erfc", "sinh")},
    "erf-inv": "chlo.erf_inv",
    **{name: f"chlo.{name}" for name in ("lgamma", "digamma", "zeta", "polygamma")},
    **dict.fromkeys(
        ["igamma", "igammac", "igamma-grad-a", "regularized-incomplete-beta"],
        "JAX's lowering of the primitive (tests/frontends/jax/test_special_functions.py)",
    ),
    "fusion": "made by passes for most programs here",
    "collective-done": "made by passes: tests/core/compiler/passes/test_overlap_collectives.py",
    "library-call": "made by passes: dot_general, convolution, sort, fft, cholesky",
    **dict.fromkeys(["pack", "packed-dot"], "made by passes: dot_general"),
    **dict.fromkeys(["window-product", "depthwise-product"], "made by passes: convolution"),
    "fft-pass": "made by passes: fft",
    "block-transpose": "made by passes: transpose",
    "allocate-buffer": "made by passes for while, and by JAX's lax.empty on other platforms",
    "parameter": "every program with an argument",
    "topk": "chlo.top_k",
}


# HLO's opcodes as XLA's enumeration spells them, where StableHLO's operation is called otherwise.
HLO_OPCODES_COVERED_AS: dict[str, str] = {
    "call": "func.call",
    "clz": "count_leading_zeros",
    "conditional": "if",
    "cos": "cosine",
    "dot": "dot_general",
    "exp": "exponential",
    "expm1": "exponential_minus_one",
    "log1p": "log_plus_one",
    "optimization-barrier": "optimization_barrier",
    "parameter": "return",  # every program with an argument
    "population-count": "popcnt",
    "ragged-dot": "chlo.ragged_dot",
    "scan": "chlo.scan",
    "sin": "sine",
    "top-k": "hlo.topk",
    # The other half of an operation that is started and awaited, or of a transfer.
    "all-gather-done": "hlo.all-gather-start",
    "all-reduce-done": "hlo.all-reduce-start",
    "async-done": "hlo.async-start",
    "async-update": "hlo.async-start",
    "collective-permute-done": "hlo.collective-permute-start",
    "copy-done": "hlo.copy-start",
    "recv-done": "hlo.recv",
    "send-done": "hlo.send",
}


# Opcodes of newer versions of XLA, which the jaxlib of the tests does not parse.
HLO_OPCODES_WITHOUT_CASES: dict[str, str] = {
    "collective-reduce": "tests/integration/test_newer_stablehlo.py",
    "exp2": "tests/core/compiler/importer/test_hlo_module.py",
    "log2": "tests/core/compiler/importer/test_hlo_module.py",
    "shuffle": "refused: jaxlib has no StableHLO for it",
}


def hlo_opcodes() -> list[str]:
    """Every opcode of HLO that this jaxlib has: ``add``, ``all-reduce-start``, ..."""
    from jaxlib import _hlo

    names = [n.removeprefix("k") for n in dir(_hlo.HloOpcode) if re.match("k[A-Z]", n)]
    return sorted(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", n).lower() for n in names)


def dialect_operations() -> list[str]:
    """Every operation of StableHLO and CHLO that this jaxlib has: ``add``, ..., ``chlo.erf``."""
    from jaxlib.mlir.dialects import _chlo_ops_gen, _stablehlo_ops_gen

    names = {
        v.OPERATION_NAME
        for module in (_stablehlo_ops_gen, _chlo_ops_gen)
        for v in vars(module).values()
        if hasattr(v, "OPERATION_NAME")
    }
    return sorted(n.removeprefix("stablehlo.") for n in names)


def in_hlo(case: Case) -> bool:
    """Whether HLO can say what a configuration says, which is that of a program."""
    if case.refused or case.op.startswith("hlo."):
        return False
    if any(f"{element(t)}>" in case.program for t in _NOT_IN_XLA):
        return False
    if "!quant." in case.program:  # HLO has PyTorch/XLA's custom calls instead
        return False
    return not any(case.name.startswith(name) for name in NOT_IN_HLO)


def sample(cases: list[Case], rest: int = 16) -> list[Case]:
    """The first configuration of every op, and one in ``rest`` of the others (0: none): always the same."""
    seen: set[str] = set()
    chosen = []
    for c in cases:
        if c.op not in seen or (rest and zlib.crc32(c.name.encode()) % rest == 0):
            seen.add(c.op)
            chosen.append(c)
    return chosen
