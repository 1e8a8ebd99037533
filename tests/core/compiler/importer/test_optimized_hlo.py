"""Programs that XLA has optimised (what its own dumps hold): fusions, bitcasts, copies."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tripont.core.compiler.importer import read_program
from tripont.core.compiler.ir.errors import CompileError
from tripont.core.compiler.reference import evaluate

from . import oracle


def read(text: str) -> Any:
    return read_program(oracle.parse_hlo_text(text).as_serialized_hlo_module_proto(), "hlo")


def bitcast(given: str, result: str) -> str:
    return (
        f"HloModule m\nENTRY main {{\n a = {given} parameter(0)\n ROOT b = {result} bitcast(a)\n}}"
    )


A = np.arange(24, dtype=np.float32)


@pytest.mark.parametrize(
    ("given", "result", "x", "expected"),
    [
        ("f32[24]{0}", "f32[4,6]{1,0}", A, A.reshape(4, 6)),
        ("f32[1,24]{1,0}", "f32[24]{0}", A[None], A),
        ("f32[4,6]{1,0}", "f32[6,4]{0,1}", A.reshape(4, 6), A.reshape(4, 6).T),
        ("f32[4,6]{0,1}", "f32[6,4]{1,0}", A.reshape(4, 6), A.reshape(4, 6).T),
        ("f32[4,6]{0,1}", "f32[24]{0}", A.reshape(4, 6), A.reshape(4, 6).T.ravel()),
        (
            "f32[2,3,4]{1,2,0}",
            "f32[3,8]{0,1}",
            A.reshape(2, 3, 4),
            A.reshape(2, 3, 4).transpose(0, 2, 1).reshape(8, 3).T,
        ),
        ("f32[24]{0}", "s32[24]{0}", A, A.view(np.int32)),
        ("f32[]", "u32[]", np.float32(3), np.float32(3).view(np.uint32)),
    ],
)
def test_bitcast(given: str, result: str, x: np.ndarray, expected: np.ndarray) -> None:
    """What lies in memory is the same: that of a layout with dimension 0 last is the transpose's."""
    (value,) = evaluate.evaluate(read(bitcast(given, result)), [x])
    assert value.dtype == expected.dtype
    np.testing.assert_array_equal(value, expected)


def test_a_bitcast_to_elements_of_another_size_is_refused() -> None:
    with pytest.raises(CompileError, match="elements of another size"):
        read(bitcast("f32[4,2]{1,0}", "f64[4]{0}"))


def program(w: Any, x: Any) -> Any:
    h = jax.nn.softmax(jnp.tanh(x @ w).T @ x, -1)
    lowest, best = jnp.sort(h, 0)[:5], jnp.argmax(h, 1)
    carried, _ = jax.lax.scan(lambda c, t: (c * 0.9 + t, c.sum()), h[0], h)
    return carried, lowest.sum() + w[best].sum() + jnp.concatenate([h, h.T]).mean()


def test_what_xla_made_of_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """The optimised module of a loop, a gather, a sort and products, with their gradients."""
    gradient = jax.grad(lambda w, x: sum(jnp.sum(r) for r in program(w, x)))
    x, w = (np.random.default_rng(n).normal(size=(16, 16)).astype(np.float32) for n in (0, 1))
    with jax.default_device(jax.devices("cpu")[0]):
        compiled = jax.jit(lambda w, x: (program(w, x), gradient(w, x))).lower(w, x).compile()
        text = compiled.as_text()
        expected = jax.tree.leaves(compiled(w, x))
    assert " fusion(" in text
    assert " bitcast(" in text
    results = oracle.run_with_xla(read(text), [w, x], monkeypatch)
    for result, wanted in zip(results, expected, strict=True):
        np.testing.assert_allclose(result, np.asarray(wanted), rtol=1e-5, atol=1e-5)
