"""One kernel, called from JAX, TensorFlow and PyTorch/XLA in one process, eagerly and in compiled programs."""

from __future__ import annotations

import contextlib
import importlib.util
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

if not all(map(importlib.util.find_spec, ("torch_xla", "tensorflow"))):
    pytest.skip("TensorFlow or PyTorch/XLA is not installed", allow_module_level=True)
if not any(map(shutil.which, ("cc", "gcc", "clang"))):
    pytest.skip("the machine has no C compiler", allow_module_level=True)

import tripont.torch_xla  # noqa: F401, I001 - before TensorFlow: both register the same option of LLVM
import torch
import torch_xla
import jax
import tensorflow as tf

from tripont import kernels


@dataclass(frozen=True)
class Framework:
    """``array``: of NumPy's. ``compiled``: a function of arrays as one program."""

    name: str
    array: Callable[[np.ndarray], Any]
    compiled: Callable[[Callable[..., Any]], Callable[..., Any]]
    to_numpy: Callable[[Any], np.ndarray]


def _on_jax(x: np.ndarray) -> Any:
    return jax.device_put(x, jax.devices("xpu")[0])


def _on_tensorflow(x: np.ndarray) -> Any:
    with tf.device("XPU:0"):
        return tf.identity(tf.constant(x))


def _function(**options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """tf.function, run on XPU: what has jit_compile is compiled for the device of the scope, not of its tensors."""

    def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
        traced = tf.function(function, **options)

        def run(*arguments: Any) -> Any:
            with tf.device("XPU:0"):
                return traced(*arguments)

        return run

    return compiled


FRAMEWORKS = [
    Framework("jax", _on_jax, jax.jit, np.asarray),
    Framework("tensorflow", _on_tensorflow, _function(jit_compile=True), lambda x: x.numpy()),
    Framework("tensorflow-op-by-op", _on_tensorflow, _function(), lambda x: x.numpy()),
    Framework(
        "torch",
        lambda x: torch.from_numpy(x).to("xla"),
        lambda f: torch.compile(f, backend="openxla", fullgraph=True),
        lambda x: x.cpu().numpy(),
    ),
]
X = np.linspace(-2, 2, 24, dtype=np.float32).reshape(2, 3, 4)


@pytest.fixture(params=FRAMEWORKS, ids=lambda framework: framework.name)
def framework(request: pytest.FixtureRequest) -> Framework:
    return request.param


@pytest.fixture(scope="module")
def scale() -> kernels.Kernel:
    return kernels.from_c(
        """
        void scale(const float* x, int64_t x_size, float factor, float* y) {
            for (int64_t i = 0; i < x_size; ++i) y[i] = factor * x[i];
        }"""
    )


@pytest.fixture(scope="module")
def locate() -> kernels.Kernel:
    """Where operand and result lie: the halves of their addresses."""
    return kernels.from_c(
        """
        void locate(const float* x, int64_t x_size, float* y, uint32_t* of_x, uint32_t* of_y) {
            memcpy(y, x, x_size * sizeof(float));
            memcpy(of_x, &x, sizeof(x));
            memcpy(of_y, &y, sizeof(y));
        }""",
        shapes=lambda x: [x, (2,), (2,)],
    )


def test_eagerly_and_compiled(framework: Framework, scale: kernels.Kernel) -> None:
    x = framework.array(X)
    expected = np.float32(2.5) * X
    np.testing.assert_array_equal(framework.to_numpy(scale(x, factor=2.5)), expected)
    run = framework.compiled(lambda x: scale(x * 2, factor=2.5) + 1)
    np.testing.assert_array_equal(framework.to_numpy(run(x)), 2 * expected + 1)


def test_calls_that_differ_in_attributes_alone(framework: Framework, scale: kernels.Kernel) -> None:
    x = framework.array(X)
    for factor in (0.1, 3, -3, float("inf")):
        result = framework.to_numpy(scale(x, factor=factor))
        np.testing.assert_array_equal(result, np.float32(factor) * X)


def test_attributes_of_every_type(framework: Framework) -> None:
    sum_up = kernels.from_c(
        """
        void sum_up(const double* x, bool a, int8_t b, uint16_t c, int d, uint64_t e, float f, double g,
                    double* y) {
          y[0] = x[0] + a + b + c + d + (double)e + f + g;
        }"""
    )
    with jax.enable_x64(True):
        result = sum_up(
            framework.array(np.float64([1])), a=True, b=-3, c=60000, d=-70000, e=2**62, f=0.5, g=0.1
        )
    expected = 1.0 + 1 - 3 + 60000 - 70000 + float(2**62) + 0.5 + 0.1
    assert framework.to_numpy(result)[0] == expected


@pytest.mark.parametrize("dtype", ["int32", "int64", "bool", "float16", "uint8"])
def test_dtypes(framework: Framework, dtype: str) -> None:
    """int32 is TensorFlow's own case: it keeps such tensors in host memory."""
    copy = kernels.from_c(
        """void copy(const void* x, int64_t x_size, int64_t size, void* y) {
            memcpy(y, x, x_size * size);
        }"""
    )
    x = (np.arange(6).reshape(2, 3) % 2).astype(dtype)
    with jax.enable_x64(True):
        result = framework.to_numpy(copy(framework.array(x), size=x.itemsize))
    assert result.dtype == x.dtype
    np.testing.assert_array_equal(result, x)


def test_memory_is_the_frameworks_own(framework: Framework, locate: kernels.Kernel) -> None:
    """What one program wrote the kernel in the next one reads where it lies."""
    first, _, written = locate(framework.array(np.zeros(5000, np.float32)))
    torch_xla.sync()  # PyTorch/XLA would compute it in the second call's program once more
    _, read, _ = locate(first)
    assert framework.to_numpy(read).tolist() == framework.to_numpy(written).tolist()


def test_a_new_kernel_of_the_same_name(framework: Framework) -> None:
    """Frameworks keep programs: a call of the new kernel must not find that of the old one."""
    source = "void number(const float* x, float* y) { y[0] = %d; }"
    x = framework.array(np.zeros(1, np.float32))
    one = kernels.from_c(source % 1)
    assert framework.to_numpy(one(x)) == 1
    two = kernels.from_c(source % 2)
    assert framework.to_numpy(two(x)) == 2
    assert framework.to_numpy(one(x)) == 1
    assert one.name == two.name == "number"
    assert kernels.from_c(source % 2).target == two.target


def test_a_failure_is_the_frameworks_exception(framework: Framework) -> None:
    fail = kernels.from_c('const char* fail(const float* x, float* y) { return "no such luck"; }')
    kinds = (jax.errors.JaxRuntimeError, tf.errors.InternalError, RuntimeError)
    with pytest.raises(kinds, match="no such luck"):
        framework.to_numpy(fail(framework.array(X)))
    if framework.name == "torch":  # it says so once more to who waits next
        with contextlib.suppress(RuntimeError):
            torch_xla.core.xla_model.wait_device_ops()


def test_operands_of_python_and_numpy(framework: Framework) -> None:
    add = kernels.from_c(
        """void add(const float* x, const float* y, int64_t x_size, float* z) {
            for (int64_t i = 0; i < x_size; ++i) z[i] = x[i] + y[i];
        }"""
    )
    x = framework.array(np.float32([1, 2]))
    np.testing.assert_array_equal(framework.to_numpy(add(x, [3, 4])), [4, 6])


def test_arguments_that_do_not_fit(framework: Framework, scale: kernels.Kernel) -> None:
    x = framework.array(X)
    with pytest.raises(kernels.SignatureError, match=r"'x' is float16\[2, 3, 4\], .*float32"):
        scale(framework.array(X.astype(np.float16)), factor=1)
    with pytest.raises(kernels.SignatureError, match="takes 1 operands"):
        scale(x, x, factor=1)
    with pytest.raises(kernels.SignatureError, match="needs 'factor'"):
        scale(x)


def test_tensors_of_two_frameworks(scale: kernels.Kernel) -> None:
    with pytest.raises(TypeError, match="jax and tensorflow in one call"):
        scale(_on_jax(X), _on_tensorflow(X), factor=1)


def test_shapes_that_tensorflow_does_not_know(scale: kernels.Kernel) -> None:
    signature = [tf.TensorSpec([None, 3], tf.float32)]
    with pytest.raises(Exception, match=r"'x' has the shape \(None, 3\)"):  # wrapped by autograph
        tf.function(lambda x: scale(x, factor=1), input_signature=signature).get_concrete_function()


def test_variables_and_gradients_in_tensorflow(scale: kernels.Kernel) -> None:
    @tf.custom_gradient
    def tripled(x: Any) -> Any:
        return scale(x, factor=3), lambda gradient: scale(gradient, factor=3)

    with tf.device("XPU:0"):
        x = tf.Variable([1.0, 2.0])
        with tf.GradientTape() as tape:
            y = tf.reduce_sum(tripled(x))
        assert tape.gradient(y, x).numpy().tolist() == [3, 3]
        with tf.GradientTape() as tape, pytest.raises(LookupError, match="XlaCustomCallV2"):
            tape.gradient(scale(x, factor=3), x)


def test_gradients_in_torch(scale: kernels.Kernel) -> None:
    class Tripled(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, x: Any) -> Any:
            return scale(x, factor=3)

        @staticmethod
        def backward(context: Any, gradient: Any) -> Any:
            return scale(gradient, factor=3)

    x = torch.ones(2, device="xla", requires_grad=True)
    Tripled.apply(x).sum().backward()
    assert x.grad.cpu().tolist() == [3, 3]
    with pytest.raises(NotImplementedError, match=r"no derivatives.*autograd.Function"):
        scale(x, factor=3).sum().backward()


def test_what_torch_does_not_call(scale: kernels.Kernel) -> None:
    with pytest.raises(kernels.SignatureError, match=r"'x' is on cpu.*x.to\('xla'\)"):
        scale(torch.ones(2), factor=1)
    nothing = kernels.from_c("void nothing(float* y) { y[0] = 0; }", shapes=lambda: ())
    with pytest.raises(kernels.SignatureError, match="one tensor or more"):
        nothing.torch()


def test_torchax(scale: kernels.Kernel) -> None:
    torchax = pytest.importorskip("torchax", reason="torchax is an extra")
    with torchax.default_env():
        result = scale(torch.ones(3).to("jax") + 1, factor=2)
    np.testing.assert_array_equal(result.jax(), np.full(3, 4.0))


def test_the_program_is_the_same_in_every_framework(scale: kernels.Kernel) -> None:
    """Attributes that stand in the target are read as those of JAX: the first framework's kernels serve all."""
    from tripont.core import _tripont

    shape = (3, 5, 7)
    reused = []
    for framework in (FRAMEWORKS[0], FRAMEWORKS[1], FRAMEWORKS[3]):
        x = framework.array(np.ones(shape, np.float32))
        before = _tripont.worker_counters()["reused"]
        run = framework.compiled(lambda x: scale(x * x, factor=9) * x)
        framework.to_numpy(run(x))
        reused.append(_tripont.worker_counters()["reused"] - before)
    assert reused[1] > 0
    assert reused[2] > 0


def test_a_name_that_is_none() -> None:
    with pytest.raises(kernels.SignatureError, match=r"cannot be called 'a\$b'"):
        kernels.from_c("void f(float* y) { y[0] = 0; }", name="a$b")
