"""Random bits and states, bit for bit those of JAX's own CPU backend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
import pytest
from jax import lax
from tripont.core.compiler.ir import dtypes, hlo
from tripont.core.compiler.ir.dtypes import DType
from tripont.core.compiler.ir.errors import CompileError
from tripont.core.compiler.targets.host import for_cpu

from tests.core.compiler.codegen.harness import Kernel

Array = np.ndarray[Any, Any]
ALGORITHMS = {
    "THREE_FRY": lax.RandomAlgorithm.RNG_THREE_FRY,
    "PHILOX": lax.RandomAlgorithm.RNG_PHILOX,
    "DEFAULT": lax.RandomAlgorithm.RNG_DEFAULT,
}
# All that U32 is tried with; the other dtypes with some of them.
SHAPES: list[tuple[int, ...]] = [
    (33,),
    (128, 10),
    (5, 7, 70),
    (),
    (2,),
    (10_000,),
    (3, 64),
    (7, 9),
    (3, 4, 5),
]


def generator(algorithm: str, words: int, dims: Sequence[int], dtype: DType) -> hlo.Instruction:
    state = hlo.Shape(dtypes.U64, (words,))
    shape = hlo.TupleShape((state, hlo.Shape(dtype, tuple(dims))))
    return hlo.Instruction(
        "rng-bit-generator", shape, [hlo.parameter(0, state)], {"algorithm": algorithm}
    )


def expected(
    algorithm: str, state: Array, dims: Sequence[int], dtype: DType
) -> tuple[Array, Array]:
    """JAX takes the key as u32[4], which is u64[2]."""
    with jax.enable_x64(True), jax.default_device(jax.devices("cpu")[0]):
        key = state.view(np.uint32)
        run = jax.jit(lambda k: lax.rng_bit_generator(k, dims, dtype.numpy, ALGORITHMS[algorithm]))
        new, bits = run(key)
    return np.asarray(new).view(np.uint64), np.asarray(bits)


@pytest.mark.parametrize("dtype", [dtypes.U32, dtypes.U64, dtypes.U8, dtypes.U16], ids=str)
@pytest.mark.parametrize("algorithm", list(ALGORITHMS))
def test_bits_and_state(algorithm: str, dtype: DType) -> None:
    everything = dtype is dtypes.U32 and algorithm != "DEFAULT"
    for n, dims in enumerate(SHAPES if everything else SHAPES[:2]):
        # The second counter is about to carry into its upper words.
        state = np.array(
            [0x123456789ABCDEF1 * (n + 1) % 2**64, 2**64 - 3 if n % 2 else 41], np.uint64
        )
        new, bits = expected(algorithm, state, dims, dtype)
        for cpu in ("host", "x86-64-v2") if everything else ("host",):
            kernel = Kernel(generator(algorithm, 2, dims, dtype), for_cpu(cpu))
            got_state, got = kernel.run([state], [1, kernel.emitted.work_count // 2])
            np.testing.assert_array_equal(got, bits, err_msg=f"{dims}")
            np.testing.assert_array_equal(got_state, new)


def test_philox_with_a_counter_of_two_words() -> None:
    """The words of the counter stand in the other order than with a state of two elements."""
    for low in (5, 2**64 - 2):
        two = np.array([77, low], np.uint64)
        three = np.array([77, low, 77], np.uint64)
        first, bits = Kernel(generator("PHILOX", 2, (70,), dtypes.U32)).run([two])
        second, same = Kernel(generator("PHILOX", 3, (70,), dtypes.U32)).run([three])
        np.testing.assert_array_equal(bits, same)
        np.testing.assert_array_equal(first, second[:2])
        assert second[2] == (78 if low + 18 >= 2**64 else 77)


def test_no_bits() -> None:
    state, bits = Kernel(generator("PHILOX", 2, (0, 3), dtypes.U32)).run(
        [np.array([1, 2], np.uint64)]
    )
    assert bits.shape == (0, 3)
    np.testing.assert_array_equal(state, [1, 2])


def test_errors_name_the_shape() -> None:
    with pytest.raises(CompileError, match="f32"):
        Kernel(generator("PHILOX", 2, (4,), dtypes.F32))
    with pytest.raises(CompileError, match="THREE_FRY"):
        Kernel(generator("THREE_FRY", 3, (4,), dtypes.U32))
