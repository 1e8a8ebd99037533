"""tripont.interop between JAX on xpu, NumPy and PyTorch on the CPU: what is shared, how long, what is refused."""

from __future__ import annotations

import gc
import re
from typing import Any

import jax
import jax.experimental.sparse
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
import scipy.sparse

from tripont import interop

pytestmark = pytest.mark.usefixtures("torch")

DTYPES = [
    "bool",
    "int8",
    "int16",
    "int32",
    "uint8",
    "float16",
    "bfloat16",
    "float32",
    "complex64",
    "float8_e4m3fn",
]


@pytest.fixture(scope="module")
def torch() -> Any:
    """PyTorch, which takes seconds to import: not while tests are collected, in every process that runs some."""
    return pytest.importorskip("torch", reason="PyTorch is an extra")


def example(dtype: str, shape: tuple[int, ...] = (128, 128)) -> np.ndarray:
    array = interop.empty(shape, getattr(ml_dtypes, dtype, dtype))
    array[...] = np.arange(array.size).reshape(shape) % 7
    return array


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_pair_shares_memory(xpu: Any, dtype: str) -> None:
    array = example(dtype)
    on_jax = interop.to_jax(array, copy=False)
    on_torch = interop.to_torch(on_jax, copy=False)
    back = interop.to_jax(on_torch, copy=False)
    assert on_jax.devices() == back.devices() == {xpu}
    assert str(on_torch.dtype) == f"torch.{dtype}"
    addresses = {interop.pointer(a) for a in (array, on_jax, on_torch, back)}
    addresses.add(interop.pointer(interop.to_numpy(back, copy=False)))
    assert addresses == {array.ctypes.data} == {on_torch.data_ptr()}
    np.testing.assert_array_equal(np.asarray(back), array)


@pytest.mark.parametrize("shape", [(0,), (3, 0, 2), (4096,), (50, 1, 100), (1, 1, 5000)])
def test_shapes(xpu: Any, shape: tuple[int, ...]) -> None:
    array = example("float32", shape)
    on_torch = interop.to_torch(interop.to_jax(array, copy=False), copy=False)
    assert tuple(on_torch.shape) == shape
    np.testing.assert_array_equal(interop.to_numpy(on_torch), array)


def test_results_of_programs_are_shared(xpu: Any) -> None:
    with jax.default_device(xpu):
        y = jax.jit(lambda x: x @ x)(jnp.ones((50, 50)))
    on_torch = interop.to_torch(y, copy=False)
    assert on_torch.data_ptr() == y.unsafe_buffer_pointer()
    assert float((on_torch @ on_torch).sum()) == 50.0**5


def test_the_consumer_outlives_the_producer(xpu: Any) -> None:
    with jax.default_device(xpu):
        x = jnp.full(10000, 3.0) + 1
    on_torch = interop.to_torch(x)
    on_numpy = interop.to_numpy(x)
    del x
    gc.collect()
    with jax.default_device(xpu):
        others = [jnp.full(10000, n, jnp.float32) + 1 for n in range(20)]  # would take the memory
    assert (on_torch == 4).all()
    assert (on_numpy == 4).all()
    assert len(others) == 20
    array = example("float32", (10000,))
    expected = array.copy()
    on_jax = interop.to_jax(array, copy=False)
    del array
    gc.collect()
    assert [interop.empty(10000).fill(9) for _ in range(20)]
    np.testing.assert_array_equal(np.asarray(on_jax), expected)


def test_shared_memory_is_not_overwritten_by_donation(xpu: Any) -> None:
    """A donated array that somebody sees keeps its content: the program gets other memory."""
    array = example("float32", (10000,))
    expected = array.copy()
    program = jax.jit(lambda x: x + 1, donate_argnums=0)
    on_jax = interop.to_jax(array, copy=False)
    np.testing.assert_array_equal(np.asarray(program(on_jax)), expected + 1)
    np.testing.assert_array_equal(array, expected)
    with jax.default_device(xpu):
        x = jnp.arange(1000.0) + 0
    view = interop.to_torch(x)
    y = program(x)
    assert (view.numpy() == np.arange(1000)).all()
    np.testing.assert_array_equal(np.asarray(y), np.arange(1000) + 1)


def test_copies(xpu: Any) -> None:
    array = example("float32")
    for convert in (interop.to_numpy, interop.to_jax, interop.to_torch):
        copied = convert(array, copy=True)
        assert interop.pointer(copied) != array.ctypes.data
        np.testing.assert_array_equal(interop.to_numpy(copied), array)
    with jax.default_device(xpu):
        x = jnp.arange(100.0) + 0
    assert interop.to_jax(x) is x
    for convert in (interop.to_numpy, interop.to_jax, interop.to_torch):
        assert interop.pointer(convert(x, copy=True)) != interop.pointer(x)


def test_what_shares_a_jax_array_is_read_only(xpu: Any) -> None:
    view = interop.to_numpy(interop.to_jax(example("float32")))
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 1


def test_unaligned_memory_is_copied_or_refused(xpu: Any) -> None:
    array = example("float32", (10001,))[1:]
    np.testing.assert_array_equal(np.asarray(interop.to_jax(array)), array)
    with pytest.raises(
        interop.ExchangeError, match=r"\(10000,\).*float32.*multiple of 64.*interop.empty"
    ):
        interop.to_jax(array, copy=False)


@pytest.mark.parametrize(
    "make",
    [lambda a, _: a.T, lambda a, _: a[:, ::2], lambda a, torch: torch.from_numpy(a).T],
)
def test_views_that_are_not_contiguous(xpu: Any, torch: Any, make: Any) -> None:
    view = make(example("float32", (128, 128)), torch)
    np.testing.assert_array_equal(np.asarray(interop.to_jax(view)), np.asarray(view))
    with pytest.raises(interop.ExchangeError, match=r"float32.*not contiguous.*copy=False"):
        interop.to_jax(view, copy=False)


def test_small_arrays_are_shared_too(xpu: Any) -> None:
    array = example("float32", (3, 4))
    on_jax = interop.to_jax(array, copy=False)
    assert interop.pointer(on_jax) == array.ctypes.data
    np.testing.assert_array_equal(np.asarray(on_jax), array)


def test_deleted_and_donated_arrays(xpu: Any) -> None:
    x = interop.to_jax(example("float32"), copy=True)
    jax.block_until_ready(jax.jit(lambda x: x + 1, donate_argnums=0)(x))
    y = interop.to_jax(example("float32"))
    y.delete()
    for gone in (x, y):
        for convert in (interop.to_numpy, interop.to_jax, interop.to_torch):
            with pytest.raises(
                interop.ExchangeError, match=r"jax.Array.*\(128, 128\).*float32.*donated"
            ):
                convert(gone)


def test_views_outlive_a_deletion(xpu: Any) -> None:
    """x.delete() ends the jax.Array; who has a view of its memory keeps that."""
    x = interop.to_jax(example("float32"), copy=True) + 1
    expected = np.array(x)
    tensor = interop.to_torch(x, copy=False)
    x.delete()
    others = [interop.to_jax(example("float32"), copy=True) + 5 for _ in range(10)]
    jax.block_until_ready(others)
    np.testing.assert_array_equal(tensor.numpy(), expected)


def test_traced_arrays(xpu: Any) -> None:
    with pytest.raises(interop.ExchangeError, match=r"traced.*outside of jit"):
        jax.jit(lambda x: interop.to_torch(x))(np.float32([1]))


def test_what_others_do_not_have(xpu: Any) -> None:
    with pytest.raises(interop.ExchangeError, match=r"float64.*jax_enable_x64"):
        interop.to_jax(np.zeros(3))
    with jax.enable_x64(True):
        assert interop.to_jax(np.zeros(3)).dtype == np.float64
    with pytest.raises(interop.ExchangeError, match="PyTorch has no int4"):
        interop.to_torch(np.zeros(3, ml_dtypes.int4))
    with pytest.raises(interop.ExchangeError, match="key_data"):
        interop.to_numpy(jax.random.key(0))
    with pytest.raises(interop.ExchangeError, match="only arrays of numbers"):
        interop.to_jax(np.array(["text"], object))
    with pytest.raises(interop.ExchangeError, match="byte order"):
        interop.to_jax(np.zeros(3, ">f4"))
    with pytest.raises(TypeError, match=r"builtins.list is not an array"):
        interop.to_jax([1, 2])


def _fake(torch: Any) -> Any:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        return torch.ones(3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda torch: torch.ones(3, requires_grad=True),
            r"\(3,\).*float32 requires.*x.detach\(\)",
        ),
        (lambda torch: torch.eye(3).to_sparse(), r"\(3, 3\).*float32: only dense.*x.to_dense\(\)"),
        (
            lambda torch: torch.ones(3, dtype=torch.complex64).conj(),
            r"\(3,\).*complex64.*resolve_conj",
        ),
        (
            lambda torch: torch.ones(3, device="meta"),
            r"on meta.*\(3,\).*float32 has no content.*to_empty",
        ),
        (
            lambda torch: torch.quantize_per_tensor(torch.ones(3), 1.0, 0, torch.qint8),
            r"\(3,\).*qint8: only dense.*dequantize",
        ),
        (
            lambda torch: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
            r"float32: only dense.*to_padded_tensor",
        ),
        (_fake, r"torch.Tensor on cpu of shape \(3,\).*float32 has no content.*fake tensor"),
    ],
    ids=["gradient", "sparse", "conjugate", "meta", "quantized", "nested", "fake"],
)
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("copy", [None, False])
def test_tensors_that_are_refused(
    xpu: Any, torch: Any, make: Any, message: str, copy: bool | None
) -> None:
    with pytest.raises(interop.ExchangeError, match=message):
        interop.to_jax(make(torch), copy=copy)


def test_tensors_of_function_transforms_are_refused(xpu: Any, torch: Any) -> None:
    def exchange(x: Any) -> Any:
        with pytest.raises(interop.ExchangeError, match=r"\(2,\).*float32.*torch.func"):
            interop.to_jax(x)
        return x

    torch.func.vmap(exchange)(torch.ones(3, 2))


def test_several_arrays_in_one(xpu: Any) -> None:
    """What is no dense array says how to make one of it."""
    with pytest.raises(interop.ExchangeError, match=r"BCOO.*\(3, 3\).*float32.*x.todense\(\)"):
        interop.to_torch(jax.experimental.sparse.BCOO.fromdense(np.eye(3, dtype=np.float32)))
    with pytest.raises(interop.ExchangeError, match=r"csr.*\(3, 3\).*float64.*x.toarray\(\)"):
        interop.to_jax(scipy.sparse.csr_array(np.eye(3)))
    masked = np.ma.masked_array(np.zeros(3, np.float32), [0, 1, 0])
    with pytest.raises(interop.ExchangeError, match=r"\(3,\).*float32 is masked.*x.filled"):
        interop.to_jax(masked)


@pytest.mark.parametrize("dtype", ["datetime64[ns]", "U2", "longdouble"])
def test_element_types_of_numpy_alone(xpu: Any, dtype: str) -> None:
    array = np.zeros(4, dtype)
    name = re.escape(array.dtype.name)
    for convert in (interop.to_jax, interop.to_torch, interop.export):
        with pytest.raises(
            interop.ExchangeError, match=rf"numpy.ndarray of shape \(4,\).*(PyTorch has no )?{name}"
        ):
            convert(array)


def test_torchax_tensors_are_jax_arrays(xpu: Any, torch: Any) -> None:
    torchax = pytest.importorskip("torchax", reason="torchax is an extra")
    with torchax.default_env(), jax.default_device(xpu):
        tensor = torch.ones(3, 4, device="jax") + 1
    shared = interop.to_jax(tensor, copy=False)
    assert interop.pointer(shared) == interop.pointer(tensor) == shared.unsafe_buffer_pointer()
    np.testing.assert_array_equal(interop.to_numpy(tensor), np.full((3, 4), 2, np.float32))
    tensor.requires_grad = True
    with pytest.raises(interop.ExchangeError, match=r"torchax.*\(3, 4\).*float32.*x.detach\(\)"):
        interop.to_jax(tensor)


def test_other_devices(xpu: Any, cpu: Any) -> None:
    x = interop.to_jax(example("float32"), device=cpu)
    assert x.devices() == {cpu}
    with pytest.raises(interop.ExchangeError, match="not an xpu device"):
        interop.to_jax(example("float32"), device=cpu, copy=False)
    with pytest.raises(interop.ExchangeError, match="is to go to"):
        interop.to_jax(x, device=xpu, copy=False)
    assert interop.to_jax(x, device=xpu).devices() == {xpu}


def test_ten_thousand_exchanges_leak_nothing(xpu: Any) -> None:
    from tripont.core import _tripont

    def in_use() -> int:
        gc.collect()
        jax.block_until_ready(interop.to_jax(example("float32")) + 1)
        return int(_tripont.Client().devices[0].memory_stats()["bytes_in_use"])

    array = example("float32", (256, 256))
    x = interop.to_jax(array, copy=False)
    before = in_use()
    for n in range(10_000):
        tensor = interop.to_torch(x, copy=False)
        x = interop.to_jax(tensor, copy=False)
        if n % 100 == 99:
            x = interop.to_jax(array, copy=False)  # else each holds the one before it
    assert in_use() == before
    assert interop.pointer(x) == array.ctypes.data
    np.testing.assert_array_equal(np.asarray(x), array)
