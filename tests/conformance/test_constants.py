"""What the compiler computes itself, where operands are constants, is what the program would have computed."""

from __future__ import annotations

import os
import warnings
from typing import Any

import numpy as np
import pytest
from tripont.core.compiler.importer.program import read_program
from tripont.core.compiler.ir import dtypes
from tripont.core.compiler.ir.errors import CompileError
from tripont.core.compiler.ir.hlo import Shape
from tripont.core.compiler.reference import evaluate

from tests.conformance import compare, device, programs, reference, registry
from tests.conformance.registry import Case

_SHORT = {d.name for d in programs.FLOATS if d.bits <= 16}
# Those without a judge have the interpreter: where results are exact, as sums in another order are not.
_JUDGED = [
    c
    for c in registry.load()
    if (c.judge is not None or c.limit == 0)
    and not c.refused
    and not device.is_hlo_text(c.program)
    # Sums of short floats are rounded after each step here, so the passes leave them to kernels.
    and not (c.op == "reduce" and c.dtype in _SHORT)
]
_CHOSEN = _JUDGED if os.environ.get("TRIPONT_CONFORMANCE") == "full" else registry.sample(_JUDGED)


@pytest.mark.parametrize("case", _CHOSEN, ids=lambda c: c.name)
def test_evaluation(case: Case) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # NumPy on NaN and infinities
        module = read_program(case.program.encode(), "mlir")
        try:
            results = evaluate.evaluate(module, case.arguments)
        except CompileError as error:  # an operation that is never computed while compiling
            if error.code != "UNIMPLEMENTED":
                raise
            return
        if case.judge is None:
            shapes = [Shape(dtypes.from_numpy(np.asarray(a).dtype), np.shape(a)) for a in results]
            judged: Any = reference.interpret(case.program, case.arguments, shapes)
        else:
            judged = case.judge(*case.arguments)
        expected = list(judged) if isinstance(judged, tuple | list) else [judged]
        scale = case.scale(*case.arguments) if case.scale is not None else None
        for n, (a, e) in enumerate(zip(results, expected, strict=True)):
            part = scale[n] if isinstance(scale, tuple) else scale
            wanted = np.asarray(e).astype(np.asarray(a).dtype)
            # NumPy's functions are less exact than ours here and there.
            limit = 3 * case.limit
            assert compare.ulps(np.asarray(a), wanted, case.zero_signs, part) <= limit, (
                compare.worst(np.asarray(a), wanted, list(case.arguments), limit)
            )
