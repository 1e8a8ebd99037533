"""What cannot be exchanged is refused, by name, shape, dtype and what to do; what must not change does not."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import keras
import numpy as np
import pytest
import tensorflow as tf
import torch
import torch_xla
from tensorflow.python.eager import context
from tripont.core import _tripont

from tests.interop.frameworks.arrays import CONVERTERS, MAKERS, example
from tripont import interop

TO_DEVICE = ["jax", "tensorflow", "torch_xla"]


@pytest.mark.parametrize("target", [name for name in CONVERTERS if name != "jax"])
def test_deleted_and_donated_jax_arrays(target: str) -> None:
    deleted = MAKERS["jax"](example())
    deleted.delete()
    donated = MAKERS["jax"](example())
    jax.block_until_ready(jax.jit(lambda x: x + 1, donate_argnums=0)(donated))
    for x in (deleted, donated):
        with pytest.raises(
            interop.ExchangeError,
            match=r"jax.Array of shape \(128, 130\) and dtype float32.*donated",
        ):
            CONVERTERS[target](x)


@pytest.mark.parametrize("target", [name for name in CONVERTERS if name != "torch_xla"])
def test_lazy_tensors_are_computed(target: str) -> None:
    """A tensor of PyTorch/XLA that is still an expression: it is computed, and then shared."""
    array = example()
    x = MAKERS["torch_xla"](array)
    lazy = (x * 2 + 1).t().contiguous()
    other = x + 5
    y = CONVERTERS[target](lazy, copy=False)
    np.testing.assert_array_equal(interop.to_numpy(y), (array * 2 + 1).T)
    assert interop.pointer(y) == interop.pointer(lazy)
    needed = torch_xla._XLAC._check_tensor_need_materialization([lazy, other])
    assert needed == [False, True]  # nothing else was


def test_views_and_updates_of_lazy_tensors() -> None:
    array = example()
    x = MAKERS["torch_xla"](array)
    before = interop.to_jax(x)
    np.testing.assert_array_equal(interop.to_numpy(interop.to_jax(x[1:, ::2])), array[1:, ::2])
    np.testing.assert_array_equal(interop.to_numpy(interop.to_tensorflow(x.t())), array.T)
    x[0] += 5
    x.mul_(2)
    expected = array.copy()
    expected[0] += 5
    np.testing.assert_array_equal(interop.to_numpy(interop.to_jax(x)), expected * 2)
    np.testing.assert_array_equal(np.asarray(before), array)


def test_donation_does_not_overwrite_what_others_see() -> None:
    array = example()
    x = MAKERS["jax"](array)
    views = [CONVERTERS[name](x, copy=False) for name in ("tensorflow", "torch_xla", "numpy")]
    y = jax.jit(lambda x: x + 1, donate_argnums=0)(x)
    np.testing.assert_array_equal(np.asarray(y), array + 1)
    for view in views:
        np.testing.assert_array_equal(interop.to_numpy(view), array)


def test_the_last_owner_may_donate() -> None:
    """Once the producer is gone, a program overwrites the memory of an array that it was given."""
    x = MAKERS["tensorflow"](example())
    y = interop.to_jax(x, copy=False)
    address = interop.pointer(y)
    del x
    gc.collect()
    z = jax.jit(lambda x: x + 1, donate_argnums=0)(y)
    assert y.is_deleted()
    assert interop.pointer(z) == address
    np.testing.assert_array_equal(np.asarray(z), example() + 1)


def test_variables_are_not_overwritten_under_their_readers() -> None:
    array = example()
    with tf.device("XPU:0"):
        variable = tf.Variable(array)
        view = interop.to_jax(variable, copy=False)
        variable.assign_add(tf.ones_like(variable))
    np.testing.assert_array_equal(np.asarray(view), array)
    np.testing.assert_array_equal(interop.to_numpy(variable), array + 1)
    parameter = MAKERS["torch_xla"](array)
    other = interop.to_tensorflow(parameter, copy=False)
    for _ in range(3):
        parameter += 1
        torch_xla.sync()
    np.testing.assert_array_equal(interop.to_numpy(other), array)
    np.testing.assert_array_equal(interop.to_numpy(parameter), array + 3)


def test_tensors_that_tensorflow_computes_asynchronously() -> None:
    """TensorFlow then runs the op that gives a tensor away on another thread than its caller's."""
    array = example()
    with context.execution_mode(context.ASYNC):
        assert context.context().is_async()
        with tf.device("XPU:0"):
            x = tf.constant(array)
            for _ in range(10):
                x = x + 1
        results = [CONVERTERS[name](x, copy=False) for name in ("jax", "torch_xla", "numpy")]
        assert context.context().is_async()
        back = interop.to_tensorflow(results[0], copy=False)
        assert {interop.pointer(y) for y in [*results, back]} == {interop.pointer(x)}
    for y in [*results, back]:
        np.testing.assert_array_equal(interop.to_numpy(y), array + 10)


def test_exchanges_of_several_threads_at_once() -> None:
    """Each gets its own array: captures belong to threads."""

    def exchange(seed: int) -> None:
        x = MAKERS["tensorflow"](example(seed=seed))
        for _ in range(50):
            y = interop.to_jax(x, copy=False)
            assert interop.pointer(y) == interop.pointer(x)
            x = interop.to_tensorflow(y, copy=False)
            np.testing.assert_array_equal(interop.to_numpy(x), example(seed=seed))

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(exchange, range(4)))


def test_tensors_that_are_refused() -> None:
    with pytest.raises(
        interop.ExchangeError, match=r"torch.Tensor on xla:0.*\(3,\).*float32.*detach"
    ):
        interop.to_jax(torch.ones(3, device="xla", requires_grad=True))
    with pytest.raises(
        interop.ExchangeError, match=r"tf.Tensor on .*string.*only arrays of numbers"
    ):
        interop.to_jax(tf.constant(["text"]))
    with pytest.raises(interop.ExchangeError, match=r"symbolic.*eager"):
        tf.function(interop.to_jax, autograph=False)(tf.ones(3))
    unknown = [tf.TensorSpec(None, tf.float32)]
    with pytest.raises(interop.ExchangeError, match=r"<unknown>.*float32 is symbolic"):
        tf.function(interop.to_jax, unknown, autograph=False)(tf.ones(3))
    with pytest.raises(interop.ExchangeError, match=r"traced.*outside of jit"):
        jax.jit(lambda x: interop.to_tensorflow(x))(jnp.ones(3))
    with pytest.raises(interop.ExchangeError, match=r"float32.*cannot go to GPU:0"):
        interop.to_tensorflow(example(), device="GPU:0")
    with pytest.raises(interop.ExchangeError, match=r"cannot go to XPU:7.*no such device"):
        interop.to_tensorflow(example(), device="XPU:7")
    with pytest.raises(interop.ExchangeError, match=r"cannot go to PyTorch's device meta"):
        interop.to_torch(example(), device="meta")


def test_several_arrays_in_one() -> None:
    """What is no dense tensor says how to make one of it."""
    sparse = tf.sparse.from_dense([[1.0, 0.0]])
    slices = tf.IndexedSlices(tf.ones((2, 3)), tf.constant([0, 1]), tf.constant([4, 3]))
    for x in (sparse, slices):
        with pytest.raises(
            interop.ExchangeError, match=rf"{type(x).__name__}.*float32 consists.*convert_to_tensor"
        ):
            interop.to_jax(x)
    ragged = tf.ragged.constant([[1.0], [2.0, 3.0]])
    with pytest.raises(interop.ExchangeError, match=r"Ragged.*\(2, None\).*float32.*to_tensor\(\)"):
        interop.to_jax(ragged)


def test_variables_of_keras() -> None:
    array = example()
    with tf.device("XPU:0"):
        variable = keras.Variable(array)
    for taken in (variable, variable.value):
        x = interop.to_jax(taken, copy=False)
        assert x.unsafe_buffer_pointer() == interop.pointer(variable)
    variable.assign_add(np.ones_like(array))
    np.testing.assert_array_equal(np.asarray(x), array)


@pytest.mark.parametrize("target", TO_DEVICE)
def test_memory_that_cannot_be_shared(target: str) -> None:
    unaligned = example("float32", (1025,))[1:]
    strided = example("float32", (64, 64)).T
    for array, reason in (
        (unaligned, "multiple of 64.*interop.empty"),
        (strided, "not contiguous"),
    ):
        with pytest.raises(interop.ExchangeError, match=rf"float32 .*{reason}.*copy=False"):
            CONVERTERS[target](array, copy=False)
        before = interop.statistics()
        np.testing.assert_array_equal(interop.to_numpy(CONVERTERS[target](array)), array)
        after = interop.statistics()
        assert after.copies == before.copies + 1
        assert after.bytes_copied == before.bytes_copied + array.nbytes


@pytest.mark.parametrize("target", TO_DEVICE)
def test_arrays_that_another_device_holds(target: str) -> None:
    """On the CPU devices of the frameworks, memory is shared with the device all the same, if aligned."""
    on_cpu = {
        "jax": jax.device_put(example(), jax.devices("cpu")[0]),
        "tensorflow": interop.to_tensorflow(example(), device="CPU:0", copy=False),
        "torch_xla": torch.arange(1000.0),
    }
    for source, x in on_cpu.items():
        if source == target == "jax":
            with pytest.raises(interop.ExchangeError, match=r"jax.Array.*is to go to"):
                interop.to_jax(x, device=jax.devices("xpu")[0], copy=False)
            continue
        y = (
            interop.to_tensorflow(x, device="XPU:0")
            if target == "tensorflow"
            else CONVERTERS[target](x)
        )
        np.testing.assert_array_equal(interop.to_numpy(y), interop.to_numpy(x))


def test_element_types_that_others_lack() -> None:
    with pytest.raises(interop.ExchangeError, match=r"jax.Array.*int4.*PyTorch has no int4"):
        interop.to_torch(jax.device_put(example("int4"), jax.devices("xpu")[0]))
    x = interop.to_jax(example("float8_e3m4"))
    with pytest.raises(interop.ExchangeError, match=r"float8_e3m4.*TensorFlow has no float8_e3m4"):
        interop.to_tensorflow(x)
    with (
        jax.enable_x64(False),
        pytest.raises(interop.ExchangeError, match=r"tf.Tensor.*jax_enable_x64"),
    ):
        interop.to_jax(MAKERS["tensorflow"](example("float64")))


def test_an_error_of_the_producer_comes_with_its_array() -> None:
    """A program that failed gives arrays without content: asking for that raises its error."""

    def fail(x: Any) -> Any:
        raise ValueError("no such thing")

    shape = jax.ShapeDtypeStruct((100,), np.float32)
    # Behind a program that is still running. With nothing ahead of it the call itself would raise, so both are compiled
    # before one of them runs.
    ones = jnp.ones((2048, 2048), np.float32)
    before = jax.jit(lambda m: (m @ m @ m @ m)[0, :100]).lower(ones).compile()
    failing = jax.jit(lambda x: jax.pure_callback(fail, shape, x) + 1).lower(shape).compile()
    x = failing(before(ones))
    with pytest.raises((_tripont.StatusError, jax.errors.JaxRuntimeError), match="no such thing"):
        interop.to_numpy(interop.to_jax(interop.to_torch(x)))


@pytest.mark.parametrize("framework", MAKERS)
def test_dlpack_of_both_generations(framework: str) -> None:
    array = example()
    x = MAKERS[framework](array)
    exported = interop.export(x, copy=False)
    assert exported.__dlpack_device__() == (1, 0)
    assert "dltensor_versioned" in repr(exported.__dlpack__(max_version=(1, 1)))
    assert '"dltensor"' in repr(exported.__dlpack__())
    consumers = {
        "numpy": np.from_dlpack(exported),
        "torch": torch.from_dlpack(exported),
        "tensorflow": tf.experimental.dlpack.from_dlpack(exported.__dlpack__()),
        "jax": jax.dlpack.from_dlpack(exported),
    }
    address = exported.pointer()
    del x, exported
    gc.collect()
    assert not consumers["numpy"].flags.writeable
    for consumer in consumers.values():
        assert interop.pointer(consumer) == address
        np.testing.assert_array_equal(interop.to_numpy(consumer), array)


class Foreign:
    """An array of another library, which gives capsules of one generation."""

    def __init__(self, array: np.ndarray, versions: bool) -> None:
        self.array, self.versions = array, versions

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __dlpack__(self, **options: Any) -> Any:
        if not self.versions and options:
            raise TypeError("there are no versions")
        return self.array.__dlpack__(**options)


@pytest.mark.parametrize("versions", [False, True])
@pytest.mark.parametrize("target", CONVERTERS)
def test_arrays_of_other_libraries(target: str, versions: bool) -> None:
    array = example()
    expected = array.copy()
    y = CONVERTERS[target](Foreign(array, versions), copy=False)
    assert interop.pointer(y) == array.ctypes.data
    del array
    gc.collect()
    np.testing.assert_array_equal(interop.to_numpy(y), expected)
    with pytest.raises(interop.ExchangeError, match=r"Foreign cannot be shared: .*not contiguous"):
        CONVERTERS[target](Foreign(example().T, versions))
    with pytest.raises(interop.ExchangeError, match=r"Foreign cannot be shared: .*aligned to 64"):
        CONVERTERS[target](Foreign(example("float32", (65,))[1:], versions))
