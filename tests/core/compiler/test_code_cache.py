"""Machine code is made once for the same LLVM IR."""

from __future__ import annotations

import pytest
from tripont.core.compiler import code_cache, compile
from tripont.core.compiler.targets.target import Image


@pytest.fixture(autouse=True)
def _empty():
    code_cache.clear()
    yield
    code_cache.clear()


def test_same_text_same_code():
    made = []

    def make(size: int):
        made.append(Image(b"x" * size, {}))
        return made[-1]

    before = code_cache.hits()
    first = code_cache.get("t", "a", lambda: make(10))
    assert code_cache.get("t", "a", lambda: make(10)) is first
    assert code_cache.hits() == before + 1
    assert code_cache.get("t", "b", lambda: make(10)) is not first
    assert code_cache.get("other target", "a", lambda: make(10)) is not first
    assert len(made) == 3


def test_oldest_goes_first():
    half = Image(b"x" * (code_cache.LIMIT // 2), {})
    for name in "abc":
        code_cache.get("t", name, lambda: half)
        code_cache.get("t", "b" if name == "b" else "a", lambda: half)
    before = code_cache.hits()
    code_cache.get("t", "a", lambda: half)
    assert code_cache.hits() == before + 1
    code_cache.get("t", "b", lambda: half)
    assert code_cache.hits() == before + 1


def test_names_and_places_do_not_matter():
    def program(module: str, function: str, line: int) -> bytes:
        return (
            f"module @{module} {{ func.func public @{function}(%a: tensor<300xf32>) -> tensor<300xf32> {{\n"
            f'  %0 = stablehlo.tanh %a : tensor<300xf32> loc("{module}.py":{line}:1)\n'
            "  return %0 : tensor<300xf32> } }"
        ).encode()

    compile.compile_program(program("one", "main", 3), "mlir", b"", {})
    before = code_cache.hits()
    artifact = compile.compile_program(program("two", "main", 7), "mlir", b"", {})
    assert code_cache.hits() == before + 1
    assert b"two" in artifact
    compile.compile_program(
        program("two", "main", 7).replace(b"tanh", b"exponential"), "mlir", b"", {}
    )
    assert code_cache.hits() == before + 1
