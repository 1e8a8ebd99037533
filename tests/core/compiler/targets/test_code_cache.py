"""Machine code is made once for the same LLVM IR."""

from __future__ import annotations

import pytest
from tripont.core.compiler import compile
from tripont.core.compiler.targets import code_cache
from tripont.core.compiler.targets.image import Image


@pytest.fixture(autouse=True)
def _empty():
    code_cache.clear()
    yield
    code_cache.clear()


def test_same_text_same_code():
    image = Image(b"x" * 10, {})
    code_cache.keep(code_cache.key("t", "a"), image)
    before = code_cache.hits()
    assert code_cache.find(code_cache.key("t", "a")) is image
    assert code_cache.hits() == before + 1
    assert code_cache.find(code_cache.key("t", "b")) is None
    assert code_cache.find(code_cache.key("other target", "a")) is None
    assert code_cache.hits() == before + 1


def test_oldest_goes_first():
    keys = [code_cache.key("t", name) for name in "abc"]
    for key in keys:
        code_cache.keep(key, Image(b"x" * (code_cache.LIMIT // 2), {}))
        code_cache.find(keys[0])
    assert code_cache.find(keys[0]) is not None
    assert code_cache.find(keys[1]) is None
    assert code_cache.find(keys[2]) is not None
    code_cache.keep(keys[2], Image(b"", {}))  # is there already
    assert code_cache.find(keys[0]) is not None


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


def test_what_has_bytes_is_kept_as_them() -> None:
    """A function's sections are many small objects, which take several times as much as its code."""
    key = code_cache.key("t", "a")
    image = Image(b"code", {})
    code_cache.keep(key, image, lambda code: code.code + b"!")
    found = code_cache.find(key, lambda content: Image(content, {}))
    assert found is not None
    assert found.code == b"code!"
    assert found is not image
