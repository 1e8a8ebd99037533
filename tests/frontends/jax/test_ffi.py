"""Handlers of the XLA FFI, compiled against jaxlib's headers as a user would, called by jax.ffi.ffi_call on xpu."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tripont.core import _tripont

HANDLERS = [
    "attributes",
    "axpb",
    "checked_sqrt",
    "context",
    "count",
    "count_token",
    "describe",
    "increment",
    "later",
    "streamed",
]
COMPILE = ["g++", "-std=c++17", "-O0", "-w", "-shared", "-fPIC", "-pthread"]


# The process keeps the handlers, so that they can be registered once: a worker may come back to this module.
@pytest.fixture(scope="session")
def library(xpu: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The handlers of ffi_handlers.cc, registered for xpu under their names with ``test.`` before them."""
    path = tmp_path_factory.mktemp("ffi") / "handlers.so"
    source = Path(__file__).with_name("ffi_handlers.cc")
    command = [*COMPILE, "-I", jax.ffi.include_dir(), str(source), "-o", str(path)]
    subprocess.run(command, check=True)
    loaded = ctypes.CDLL(str(path))
    newest = ["newest"] if hasattr(loaded, "newest") else []
    for name in HANDLERS + newest:
        handler = jax.ffi.pycapsule(getattr(loaded, name))
        jax.ffi.register_ffi_target(f"test.{name}", handler, platform="xpu")
    for name in ("InstanceTypeId", "PerRunTypeId", "InstanceTypeInfo", "PerRunTypeInfo"):
        getattr(loaded, name).restype = ctypes.c_void_p
    for name in ("Instance", "PerRun"):
        registration = {
            "type_id": jax.ffi.pycapsule(getattr(loaded, f"{name}TypeId")()),
            "type_info": jax.ffi.pycapsule(getattr(loaded, f"{name}TypeInfo")()),
        }
        jax.ffi.register_ffi_type(f"test.{name}", registration, platform="xpu")
    stages = {
        stage: jax.ffi.pycapsule(getattr(loaded, f"staged_{stage}"))
        for stage in ("instantiate", "prepare", "initialize", "execute")
    }
    jax.ffi.register_ffi_target("test.staged", stages, platform="xpu")
    untyped = jax.ffi.pycapsule(loaded.UntypedAdd)
    jax.ffi.register_ffi_target("test.untyped", untyped, platform="xpu", api_version=0)
    for name in ("NumCounted", "NumAlive", "NumPrepared"):
        getattr(loaded, name).restype = ctypes.c_int64
    return loaded


@pytest.fixture(autouse=True)
def _on_xpu(xpu: Any) -> Iterator[None]:
    with jax.enable_x64(True), jax.default_device(xpu):
        yield


def axpb(x: Any, factor: float = 2.0, offset: int = 1, **options: Any) -> Any:
    result = jax.ShapeDtypeStruct(x.shape, x.dtype)
    call = jax.ffi.ffi_call("test.axpb", result, **options)
    return call(x, factor=np.float32(factor), offset=np.int64(offset))


def f32(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


@pytest.mark.parametrize("shape", [(), (5,), (2, 3), (0, 4), (1000, 700)])
def test_handler(library: Any, shape: tuple[int, ...]) -> None:
    np.testing.assert_array_equal(jax.jit(axpb)(f32(*shape)), 2 * f32(*shape) + 1)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "float16", "bfloat16", "complex64"])
def test_any_buffer(library: Any, dtype: str) -> None:
    x = jnp.zeros((3, 4), dtype)
    call = jax.ffi.ffi_call("test.describe", jax.ShapeDtypeStruct((4,), np.int64))
    code = {"bool": 1, "int8": 2, "uint16": 7, "float16": 10, "bfloat16": 16, "complex64": 15}
    assert jax.jit(call)(x).tolist() == [code[dtype], 2, x.nbytes, 7]


def test_attributes_of_every_kind(library: Any) -> None:
    call = jax.ffi.ffi_call("test.attributes", jax.ShapeDtypeStruct((8,), np.float64))
    result = call(
        b=True,
        i8=np.int8(-3),
        u32=np.uint32(2**32 - 1),
        f64=np.float64(0.1),
        text="some text",
        array=np.arange(5, dtype=np.int64),
        floats=np.float32([0.5, 0.25]),
        dictionary={"inner": np.int32(7)},
    )
    assert result.tolist() == [1.0, -3.0, 2**32 - 1.0, 0.1, 9.0, 10.0, 0.75, 7.0]


def test_missing_and_wrong_attributes_are_the_handlers_errors(library: Any) -> None:
    call = jax.ffi.ffi_call("test.axpb", jax.ShapeDtypeStruct((2,), np.float32))
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"(?s)Wrong number of attributes"):
        jax.block_until_ready(call(f32(2), factor=np.float32(1)))
    with pytest.raises(jax.errors.JaxRuntimeError, match="expected S64 but got S32"):
        jax.block_until_ready(call(f32(2), factor=np.float32(1), offset=np.int32(1)))


def test_an_attribute_that_cannot_be_passed(library: Any) -> None:
    call = jax.ffi.ffi_call("test.axpb", jax.ShapeDtypeStruct((2,), np.float32))
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"'offset'.*test\.axpb.*NumPy arrays"):
        call(f32(2), factor=np.float32(1), offset=(1, 2))


def test_a_failing_handlers_message_reaches_the_user(library: Any) -> None:
    call = jax.ffi.ffi_call("test.checked_sqrt", jax.ShapeDtypeStruct((3,), np.float32))
    np.testing.assert_array_equal(call(np.float32([1, 4, 9])), [1, 2, 3])
    with pytest.raises(jax.errors.JaxRuntimeError) as caught:
        jax.block_until_ready(jax.jit(call)(np.float32([1, -4, 9])))
    message = str(caught.value)
    assert message.startswith("OUT_OF_RANGE")
    assert "'test.checked_sqrt': element 1 is negative: -4" in message
    assert "test_ffi.py" in message  # the user's source line


def test_what_version_0_5_has_added(library: Any) -> None:
    if not hasattr(library, "newest"):
        pytest.skip("this jaxlib's headers are those of an older version of the FFI")
    call = jax.ffi.ffi_call("test.newest", jax.ShapeDtypeStruct((4,), np.int64))
    assert jax.jit(call)().tolist() == [0, 1, 5, 1]


def test_a_type_that_the_handler_does_not_take(library: Any) -> None:
    call = jax.ffi.ffi_call("test.checked_sqrt", jax.ShapeDtypeStruct((3,), np.float32))
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"(?s)test.checked_sqrt.*dtype"):
        jax.block_until_ready(call(np.float64([1, 4, 9])))


def test_input_output_aliases(library: Any) -> None:
    results = (jax.ShapeDtypeStruct((3,), np.int32), jax.ShapeDtypeStruct((1,), np.int32))
    call = jax.ffi.ffi_call("test.increment", results, input_output_aliases={0: 0})
    x = jnp.arange(3, dtype=jnp.int32)
    y, same = jax.jit(call)(x)
    assert (y.tolist(), same.tolist()) == ([1, 2, 3], [1])
    assert x.tolist() == [0, 1, 2]  # not donated: the call got a copy
    # Used again afterwards: a copy too.
    y, same, z = jax.jit(lambda x: (*call(x + 1), 2 * (x + 1)))(x)
    assert (y.tolist(), same.tolist(), z.tolist()) == ([2, 3, 4], [1], [2, 4, 6])


def test_aliases_in_a_loop(library: Any) -> None:
    results = (jax.ShapeDtypeStruct((3,), np.int32), jax.ShapeDtypeStruct((1,), np.int32))
    call = jax.ffi.ffi_call("test.increment", results, input_output_aliases={0: 0})
    loop = jax.jit(
        lambda n: jax.lax.fori_loop(0, n, lambda i, x: call(x)[0], jnp.zeros(3, "int32"))
    )
    assert loop(10).tolist() == [10, 10, 10]


def test_side_effects_are_kept(library: Any) -> None:
    call = jax.ffi.ffi_call("test.count", (), has_side_effect=True)

    def body(i: Any, x: Any) -> Any:
        call(x)
        return x + 1

    library.NumCounted()
    jax.block_until_ready(jax.jit(lambda x: (call(x), x + 1)[1])(1.0))
    assert library.NumCounted() == 1
    jax.block_until_ready(jax.jit(lambda x: jax.lax.fori_loop(0, 5, body, x))(1.0))
    assert library.NumCounted() == 5
    jax.block_until_ready(
        jax.jit(lambda p, x: jax.lax.cond(p, lambda x: (call(x), x)[1], lambda x: x, x))(True, 1.0)
    )
    assert library.NumCounted() == 1


def test_unused_calls_without_side_effects_are_dropped(library: Any) -> None:
    call = jax.ffi.ffi_call("test.checked_sqrt", jax.ShapeDtypeStruct((1,), np.float32))
    jax.block_until_ready(jax.jit(lambda x: (call(x), x + 1)[1])(np.float32([-1])))


def test_tokens(library: Any) -> None:
    text = """
    func.func public @main(%x: tensor<2xf32>) -> tensor<2xf32> {
      %t = stablehlo.create_token : !stablehlo.token
      %u = stablehlo.custom_call @test.count_token(%t) {api_version = 4 : i32, backend_config = {},
          has_side_effect = true} : (!stablehlo.token) -> !stablehlo.token
      %v = stablehlo.custom_call @test.count_token(%u) {api_version = 4 : i32, backend_config = {},
          has_side_effect = true} : (!stablehlo.token) -> !stablehlo.token
      return %x : tensor<2xf32>
    }"""
    client = _tripont.Client()
    artifact, _ = client.compile(text.encode())
    library.NumCounted()
    (result,) = _tripont.Executable.load(artifact).run(client.devices[0], [f32(2)])
    assert result.tolist() == [0, 1]
    assert library.NumCounted() == 2


def test_execution_context(library: Any) -> None:
    call = jax.jit(jax.ffi.ffi_call("test.context", jax.ShapeDtypeStruct((5,), np.int64)))
    first, second = (call(np.int64([3])).tolist() for _ in range(2))
    assert first[0] == 0
    assert first[1] != second[1]  # runs are told apart
    assert first[2:4] == [1, 3 * 28]
    assert first[4] == _tripont.num_threads()


@pytest.mark.parametrize(
    "options", [{"num_threads": 1}, {"num_threads": "1"}, {"xla_cpu_multi_thread_eigen": False}]
)
def test_a_function_with_one_thread(library: Any, options: dict[str, Any]) -> None:
    call = jax.jit(
        jax.ffi.ffi_call("test.context", jax.ShapeDtypeStruct((5,), np.int64)),
        compiler_options=options,
    )
    assert call(np.int64([3])).tolist()[2:] == [1, 3 * 28, 1]


def test_a_limit_of_threads_is_a_number(library: Any) -> None:
    call = jax.ffi.ffi_call("test.context", jax.ShapeDtypeStruct((5,), np.int64))
    with pytest.raises(Exception, match="option num_threads is 'few', which is not a number"):
        jax.jit(call, compiler_options={"num_threads": "few"})(np.int64([3]))


def test_stages_and_state(library: Any) -> None:
    result = jax.ShapeDtypeStruct((1,), np.int64)
    library.NumPrepared()
    alive = library.NumAlive()

    def function(x: Any) -> Any:
        call = jax.ffi.ffi_call("test.staged", result)

        def body(i: Any, x: Any) -> Any:
            return call(x, value=np.int64(5))

        return jax.lax.fori_loop(0, 3, body, x)

    run = jax.jit(function)
    # Each execution has a fresh state (50), which each call of it counts up.
    assert run(np.int64([0])).tolist() == [3 * 5 + 51 + 52 + 53]
    assert run(np.int64([0])).tolist() == [3 * 5 + 51 + 52 + 53]
    assert library.NumPrepared() == 2
    assert library.NumAlive() == alive + 1
    del run
    jax.clear_caches()
    assert library.NumAlive() == alive


def test_an_error_of_the_instantiate_stage_is_an_error_of_compiling(library: Any) -> None:
    call = jax.ffi.ffi_call("test.staged", jax.ShapeDtypeStruct((1,), np.int64))
    with pytest.raises(jax.errors.JaxRuntimeError, match="value is negative"):
        jax.jit(lambda x: call(x, value=np.int64(-1))).lower(np.int64([0])).compile()


def test_asynchronous_handlers(library: Any) -> None:
    call = jax.jit(jax.ffi.ffi_call("test.later", jax.ShapeDtypeStruct((1,), np.float32)))
    assert call(np.float32([1])).tolist() == [2]
    # JAX's fast path, which the second call takes, makes a ValueError of it.
    with pytest.raises((ValueError, jax.errors.JaxRuntimeError), match=r"ABORTED.*lost it later"):
        jax.block_until_ready(call(np.float32([-1])))


def test_there_is_no_platform_stream(library: Any) -> None:
    call = jax.ffi.ffi_call("test.streamed", jax.ShapeDtypeStruct((1,), np.float32))
    with pytest.raises(jax.errors.JaxRuntimeError, match="no platform stream"):
        jax.block_until_ready(call(np.float32([1])))


def test_untyped_functions(library: Any) -> None:
    call = jax.ffi.ffi_call(
        "test.untyped", jax.ShapeDtypeStruct((), np.float32), custom_call_api_version=1
    )
    assert jax.jit(call)(np.float32(2), np.float32(3)) == 5
    typed = jax.ffi.ffi_call("test.untyped", jax.ShapeDtypeStruct((), np.float32))
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"untyped.*registered as an untyped"):
        typed(np.float32(2), np.float32(3))


@pytest.mark.parametrize("method", ["sequential", "broadcast_all", "expand_dims"])
def test_vmap(library: Any, method: str) -> None:
    x = f32(4, 3)
    batched = jax.jit(jax.vmap(lambda row: axpb(row, vmap_method=method)))
    np.testing.assert_array_equal(batched(x), 2 * x + 1)


def test_in_a_program_with_more_around_it(library: Any) -> None:
    x = f32(8, 16)
    run = jax.jit(lambda x: jnp.sum(axpb(jnp.sin(x).T) ** 2, axis=0) + axpb(x).mean())
    wanted = np.sum((2 * np.sin(x).T + 1) ** 2, axis=0) + (2 * x + 1).mean()
    np.testing.assert_allclose(run(x), wanted, rtol=1e-6)


def test_column_major_operands(library: Any) -> None:
    """The handler asked for the transposed layout: it sees the columns one after the other."""
    x = f32(2, 3)
    call = jax.ffi.ffi_call(
        "test.axpb",
        jax.ShapeDtypeStruct((2, 3), np.float32),
        input_layouts=[(1, 0)],
        output_layouts=(0, 1),
    )
    y = jax.jit(lambda x: call(x, factor=np.float32(1), offset=np.int64(0)))(x)
    np.testing.assert_array_equal(np.asarray(y).reshape(-1), x.T.reshape(-1))


def test_an_unknown_name_is_an_error_of_compiling(xpu: Any) -> None:
    call = jax.ffi.ffi_call("test.nobody", jax.ShapeDtypeStruct((2,), np.float32))
    with pytest.raises(jax.errors.JaxRuntimeError) as caught:
        jax.jit(call).lower(f32(2)).compile()
    message = str(caught.value)
    assert message.startswith("NOT_FOUND")
    assert "'test.nobody'" in message
    assert "platform='xpu'" in message
    assert "test_ffi.py" in message


def test_handlers_of_other_platforms_are_not_used(library: Any) -> None:
    handler = jax.ffi.pycapsule(library.axpb)
    jax.ffi.register_ffi_target("test.cpu_only", handler, platform="cpu")
    call = jax.ffi.ffi_call("test.cpu_only", jax.ShapeDtypeStruct((2,), np.float32))
    with pytest.raises(
        jax.errors.JaxRuntimeError, match="handlers of other platforms are not used"
    ):
        call(f32(2), factor=np.float32(1), offset=np.int64(0))


def test_registering_twice(library: Any) -> None:
    handler = jax.ffi.pycapsule(library.axpb)
    jax.ffi.register_ffi_target("test.axpb", handler, platform="xpu")  # the same again
    other = jax.ffi.pycapsule(library.describe)
    with pytest.raises(RuntimeError, match=r"ALREADY_EXISTS.*'test\.axpb'"):
        jax.ffi.register_ffi_target("test.axpb", other, platform="xpu")


def test_bad_registrations(library: Any) -> None:
    handler = jax.ffi.pycapsule(library.axpb)
    with pytest.raises(TypeError, match="not a PyCapsule"):
        jax.ffi.register_ffi_target("test.bad", 5, platform="xpu")
    with pytest.raises(ValueError, match="stage 'run'"):
        jax.ffi.register_ffi_target("test.bad", {"run": handler}, platform="xpu")
    with pytest.raises(RuntimeError, match="no handler for the stage 'execute'"):
        jax.ffi.register_ffi_target("test.bad", {"prepare": handler}, platform="xpu")
    with pytest.raises(ValueError, match="api_version is 7"):
        jax.ffi.register_ffi_target("test.bad", handler, platform="xpu", api_version=7)
    assert "test.bad" not in _tripont.custom_calls()


@pytest.mark.parametrize("size", [2, 1 << 20])
def test_many_threads_at_once(library: Any, size: int) -> None:
    """Executions overlap on the stream and on the callers' threads; each sees its own buffers."""
    from concurrent.futures import ThreadPoolExecutor

    run = jax.jit(axpb)

    def one(n: int) -> bool:
        x = np.full(size, n, np.float32)
        return bool((np.asarray(run(x)) == 2 * n + 1).all())

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(one, range(40)))
