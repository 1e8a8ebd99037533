"""tripont.kernels: kernels in C and in LLVM IR, called from JAX on xpu."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tripont import kernels
from tripont.kernels import building, prototype, storage

needs_compiler = pytest.mark.skipif(
    not (shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")),
    reason="the machine has no C compiler",
)

SCALE = """
// Comments may hold functions: void not_this(float* y) { }
#define HELPER(x) (x)
static float twice(float a) { return 2 * HELPER(a); }
void scale(const float* x, int64_t x_size, float factor, float* restrict y) {
  for (int64_t i = 0; i < x_size; ++i) y[i] = factor * twice(x[i]) / 2;
}
"""
ADD = """
define void @add(ptr %x, ptr %y, i64 %begin, i64 %end, ptr %z) {
entry:
  %any = icmp slt i64 %begin, %end
  br i1 %any, label %loop, label %out
loop:
  %i = phi i64 [%begin, %entry], [%n, %loop]
  %px = getelementptr float, ptr %x, i64 %i
  %a = load float, ptr %px
  %py = getelementptr float, ptr %y, i64 %i
  %b = load float, ptr %py
  %c = fadd float %a, %b
  %pz = getelementptr float, ptr %z, i64 %i
  store float %c, ptr %pz
  %n = add i64 %i, 1
  %d = icmp slt i64 %n, %end
  br i1 %d, label %loop, label %out
out:
  ret void
}
"""
ADD_SIGNATURE = "void add(const float* x, const float* y, int64_t begin, int64_t end, float* z)"


@pytest.fixture(autouse=True)
def _on_xpu(xpu: Any) -> Iterator[None]:
    with jax.default_device(xpu):
        yield


@pytest.fixture(scope="module")
def scale(xpu: Any) -> kernels.Kernel:
    return kernels.from_c(SCALE)


@needs_compiler
@pytest.mark.parametrize("shape", [(), (5,), (3, 0), (20, 30)])
def test_a_kernel_in_c(scale: kernels.Kernel, shape: tuple[int, ...]) -> None:
    x = jnp.arange(np.prod(shape), dtype=jnp.float32).reshape(shape)
    np.testing.assert_array_equal(scale(x, factor=2.5), 2.5 * x)
    run = jax.jit(lambda x: scale(x + 1, factor=2) - 1)
    np.testing.assert_array_equal(run(x), 2 * (x + 1) - 1)


@needs_compiler
def test_in_vmap_and_loops(scale: kernels.Kernel) -> None:
    x = jnp.arange(12.0).reshape(3, 4)
    np.testing.assert_array_equal(jax.vmap(lambda r: scale(r, factor=3))(x), 3 * x)
    loop = jax.jit(lambda x: jax.lax.fori_loop(0, 5, lambda i, x: scale(x, factor=2), x))
    np.testing.assert_array_equal(loop(x), 32 * x)


@needs_compiler
def test_a_gradient_by_custom_vjp(scale: kernels.Kernel) -> None:
    tripled = jax.custom_vjp(lambda x: scale(x, factor=3))
    tripled.defvjp(lambda x: (scale(x, factor=3), None), lambda _, g: (scale(g, factor=3),))
    assert jax.grad(lambda x: tripled(x).sum())(jnp.ones(3)).tolist() == [3, 3, 3]


@needs_compiler
def test_everything_that_the_runtime_fills_in() -> None:
    describe = kernels.from_c(
        """
        void describe(const void* x, int64_t x_size, int64_t x_rank, int64_t x_dim1,
                      const int64_t* x_dims, int64_t y_size, int32_t* y, double* z) {
          y[0] = x_size; y[1] = x_rank; y[2] = x_dim1; y[3] = x_dims[0]; y[4] = y_size;
          z[0] = 1.5;
        }""",
        shapes=lambda x: [(5,), ()],
    )
    with jax.enable_x64(True):
        y, z = jax.jit(describe)(jnp.zeros((2, 3, 4), jnp.complex64))
    assert y.tolist() == [24, 3, 3, 2, 5]
    assert (float(z), z.dtype) == (1.5, np.float64)


@needs_compiler
def test_attributes_of_every_type() -> None:
    sum_up = kernels.from_c(
        """
        void sum_up(bool a, int8_t b, uint16_t c, int d, uint64_t e, float f, double g, double* y) {
          y[0] = a + b + c + d + (double)e + f + g;
        }""",
        shapes=lambda **_: (),
    )
    with jax.enable_x64(True):
        total = sum_up(a=True, b=-3, c=60000, d=-70000, e=2**62, f=0.5, g=0.25)
        assert float(total) == 1 - 3 + 60000 - 70000 + 2.0**62 + 0.75
        with pytest.raises(kernels.SignatureError, match=r"'b' is 200, which is no int8_t"):
            sum_up(a=True, b=200, c=1, d=1, e=1, f=1, g=1)


@needs_compiler
@pytest.mark.parametrize("work", ["elements", "rows"])
def test_parallel_kernels(work: Any) -> None:
    square = kernels.from_c(
        """
        void square(const float* x, int64_t width, int64_t begin, int64_t end, float* y) {
          for (int64_t i = begin * width; i < end * width; ++i) y[i] = x[i] * x[i];
        }""",
        work=work,
        grain=7,
    )
    x = jnp.arange(3000.0).reshape(100, 30)
    y = jax.jit(lambda x: square(x, width=1 if work == "elements" else 30))(x)
    np.testing.assert_array_equal(y, np.asarray(x) ** 2)


@needs_compiler
def test_failures() -> None:
    check = kernels.from_c(
        """
        const char* check(const float* x, float* y) {
          if (x[0] < 0) return "x is negative";
          y[0] = x[0];
          return 0;
        }"""
    )
    code = kernels.from_c("int code(const float* x, float* y) { y[0] = x[0]; return (int)x[0]; }")
    assert float(check(jnp.float32(1))) == 1
    assert float(code(jnp.float32(0))) == 0
    with pytest.raises((ValueError, jax.errors.JaxRuntimeError), match="x is negative"):
        jax.block_until_ready(check(jnp.float32(-1)))
    with pytest.raises((ValueError, jax.errors.JaxRuntimeError), match="the kernel returned 3"):
        jax.block_until_ready(code(jnp.float32(3)))


def test_a_kernel_in_llvm_ir() -> None:
    add = kernels.from_llvm_ir(ADD, ADD_SIGNATURE, name="test.add")
    x = jnp.arange(100_000.0)
    np.testing.assert_array_equal(jax.jit(add)(x, x), 2 * x)
    np.testing.assert_array_equal(add(x[:0], x[:0]), x[:0])


def test_llvm_ir_that_is_wrong() -> None:
    with pytest.raises(kernels.SignatureError, match=r"(?s)'add' does not compile.*LLVM"):
        kernels.from_llvm_ir("define void @add(ptr %x) { ret i32 0 }", ADD_SIGNATURE)
    with pytest.raises(kernels.SignatureError, match=r"'add' does not compile"):
        kernels.from_llvm_ir("", ADD_SIGNATURE)


@needs_compiler
def test_a_new_kernel_replaces_the_old_one() -> None:
    source = "void number(float* y) { y[0] = %d; }"
    one = kernels.from_c(source % 1, shapes=lambda: ())
    first = jax.jit(lambda x: one() + x)
    assert float(first(0.0)) == 1
    two = kernels.from_c(source % 2, shapes=lambda: ())
    assert float(jax.jit(lambda x: two() + x)(0.0)) == 2
    assert float(first(0.0)) == 1  # compiled before


@needs_compiler
def test_compiled_kernels_are_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    source = "void cached(float* y) { y[0] = 5; }"
    kernels.from_c(source, shapes=lambda: ())
    assert any(storage.writable_folder().glob("cached-*.so"))
    run = building.subprocess.run

    def only_version(command: list[str], **options: Any) -> Any:
        assert "--version" in command, "the compiler ran again"
        return run(command, **options)

    monkeypatch.setattr(building.subprocess, "run", only_version)
    assert float(kernels.from_c(source, shapes=lambda: ())()) == 5


@needs_compiler
def test_source_that_does_not_compile() -> None:
    with pytest.raises(kernels.SignatureError, match=r"(?s)'broken' does not compile.*broken.c:1"):
        kernels.from_c("void broken(float* y) { y[0] = nobody; }")


@needs_compiler
def test_arguments_that_do_not_fit(scale: kernels.Kernel) -> None:
    x = jnp.ones(3)
    cases = [
        (lambda: scale(x, x, factor=1), r"takes 1 operands \(x\), 2 given"),
        (lambda: scale(jnp.ones(3, jnp.int32), factor=1), r"'x' is int32\[3\].*takes float32"),
        (lambda: scale(x), "needs 'factor'"),
        (lambda: scale(x, factor=1, offset=2), "no attribute 'offset'.*factor"),
        (lambda: scale(x, factor="big"), "'factor' must be a number"),
        (lambda: jax.jit(lambda f: scale(x, factor=f))(1.0), "known when the program is traced"),
    ]
    for call, message in cases:
        with pytest.raises(kernels.SignatureError, match=message):
            call()


@needs_compiler
def test_programs_that_name_a_kernel_directly(scale: kernels.Kernel) -> None:
    """What the wrapper checks, the runtime checks again when a program is loaded."""
    call = jax.ffi.ffi_call("scale", jax.ShapeDtypeStruct((3,), np.float32))
    x = np.ones(3, np.float32)
    assert call(x, factor=np.float32(2)).tolist() == [2, 2, 2]
    cases: list[tuple[dict[str, Any], Any, str]] = [
        ({}, x, "attribute 'factor' is missing"),
        ({"factor": "text"}, x, "attribute 'factor' is not a number"),
        ({"factor": np.float32(1), "more": 1}, x, "no attribute 'more'"),
        ({"factor": np.float32(1)}, np.ones(3, np.int32), r"'x' is s32\[3\], the kernel takes f32"),
    ]
    for attributes, operand, message in cases:
        with pytest.raises(jax.errors.JaxRuntimeError, match=message):
            call(operand, **attributes)
    with pytest.raises(jax.errors.JaxRuntimeError, match="2 operands given, the kernel has 1"):
        call(x, x, factor=np.float32(1))


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("int x;", "needs one function"),
        ("void f(float* y) {} void g(float* y) {}", "found f, g"),
        ("float f(float* y) {}", "returns 'float'"),
        ("void f(void) {}", "needs a result"),
        ("void f(const float* x) {}", "no result"),
        ("void f(struct s* y) {}", "'struct s'"),
        ("void f(float y[3]) {}", "cannot read the parameter"),
        ("void f(float** y) {}", "cannot read the parameter"),
        ("void f(float* y, float _Complex c) {}", "an attribute cannot be a float _Complex"),
        ("void f(float* y, int64_t begin) {}", "both of `begin` and `end`"),
        ("void f(float* y, float y_size) {}", "'y_size' must be an int64_t"),
        ("void f(float* y, const float* y) {}", "two parameters 'y'"),
    ],
)
def test_prototypes_that_are_no_kernels(source: str, message: str) -> None:
    with pytest.raises(kernels.SignatureError, match=message):
        prototype.read(source)


def test_reading_a_prototype() -> None:
    read = prototype.read(
        "int f(const unsigned char *a, const void* b, double*y, size_t n, int b_dim2)"
    )
    kinds = [(p.name, p.kind, p.type.numpy, p.array) for p in read.parameters]
    assert read.returns == "int"
    assert kinds == [
        ("a", "operand", "uint8", 0),
        ("b", "operand", "", 1),
        ("y", "result", "float64", 0),
        ("n", "attribute", "uint64", 0),
        ("b_dim2", "dimension", "int32", 1),
    ]
    assert read.parameters[-1].dimension == 2
