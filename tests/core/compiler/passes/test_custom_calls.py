"""Custom calls of linear algebra: what the programs do not read is not computed."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tripont.core.compiler.importer import read_program
from tripont.core.compiler.ir.errors import CompileError
from tripont.core.compiler.ir.hlo import Instruction
from tripont.core.compiler.passes.custom_calls import lay_out_custom_calls, match_custom_calls
from tripont.core.compiler.passes.inline import inline_calls
from tripont.core.compiler.passes.simplify import simplify

from .test_library import SERVER, instructions


def decompositions(function: Any, dtype: Any) -> list[Instruction]:
    """The library calls of ``function`` of a matrix of order 40."""
    text = jax.jit(function).lower(jax.ShapeDtypeStruct((40, 40), dtype)).as_text()
    module = lay_out_custom_calls(inline_calls(read_program(text.encode(), "mlir")))
    return instructions(match_custom_calls(simplify(module), SERVER), "library-call")


def modes(function: Any, dtype: Any) -> str:
    return "".join(chr(i.attributes["config"]["mode"]) for i in decompositions(function, dtype))


@pytest.mark.parametrize(
    ("function", "asked"),
    [
        (jnp.linalg.eigvalsh, "N"),
        (jnp.linalg.eigh, "V"),
        (lambda a: jnp.linalg.eigh(a)[1], "V"),
        # The second matrix is made of the first one's values.
        (lambda a: jnp.linalg.eigvalsh(a + jnp.linalg.eigvalsh(a)), "NN"),
        (lambda a: jnp.linalg.eigvalsh(jnp.linalg.eigh(a)[1]), "VN"),
        (jax.grad(lambda a: jnp.linalg.eigvalsh(a).max()), "V"),
    ],
)
def test_vectors_that_nothing_reads_are_not_asked_for(function: Any, asked: str) -> None:
    assert modes(function, np.float32) == asked


def test_vectors_of_f64_are_asked_for() -> None:
    """The values that come with them are more exact than LAPACK's values alone."""
    with jax.enable_x64(True):
        assert modes(jnp.linalg.eigvalsh, np.float64) == "V"
        assert modes(jnp.linalg.eigvalsh, np.complex64) == "N"


def test_values_alone_cost_less() -> None:
    alone, both = (
        decompositions(function, np.float32)[0].attributes["config"]["cost_ns"]
        for function in (jnp.linalg.eigvalsh, jnp.linalg.eigh)
    )
    assert alone < both


@pytest.mark.parametrize("dtype", ["f32", "f16"])
@pytest.mark.parametrize(
    ("target", "operands", "results", "takes"),
    [
        ("Qr", ["4x3x{}"], ["4x3x{}"], "a matrix"),
        ("Qr", ["4x3x{}"], ["4x3x{}", "3x{}", "3x{}"], "a matrix"),
        ("Qr", ["4x{}"], ["4x{}", "4x{}"], "a matrix"),
        ("Qr", [], ["4x3x{}", "3x{}"], "a matrix"),
        ("Eigh", ["4x4x{}", "4x4x{}"], ["4x4x{}", "4x{}"], "a matrix"),
        ("LuDecomposition", ["4x4x{}"], ["4x4x{}", "4xi32"], "a matrix"),
        ("ProductOfElementaryHouseholderReflectors", ["4x3x{}"], ["4x3x{}"], "2 operands"),
    ],
)
def test_other_numbers_of_operands_or_results_are_refused(
    target: str, operands: list[str], results: list[str], takes: str, dtype: str
) -> None:
    given = [f"tensor<{o.format(dtype)}>" for o in operands]
    made = ", ".join(f"tensor<{r.format(dtype)}>" for r in results)
    parameters = ", ".join(f"%a{n}: {t}" for n, t in enumerate(given))
    names = ", ".join(f"%a{n}" for n in range(len(given)))
    numbers = ", ".join(f"%r#{n}" for n in range(len(results))) if len(results) > 1 else "%r"
    many = f":{len(results)}" if len(results) > 1 else ""
    text = f"""func.func @main({parameters}) -> ({made}) {{
  %r{many} = stablehlo.custom_call @{target}({names}) : ({", ".join(given)}) -> ({made})
  return {numbers} : {made}
}}"""
    with pytest.raises(CompileError, match=f"{dtype}.*: {target} takes {takes}") as raised:
        lay_out_custom_calls(read_program(text.encode(), "mlir"))
    assert raised.value.code == "INVALID_ARGUMENT"
