"""Operations on types that the runtime or the kernels take by way of another type."""

from __future__ import annotations

import numpy as np
import pytest
from tripont.core.compiler.ir import dtypes
from tripont.core.compiler.ir.dtypes import DType

from tests.conformance import programs, values
from tests.conformance.cases_control import by_xla
from tests.conformance.programs import function, tensor
from tests.conformance.registry import Case, run_case

_NARROW = [d for d in dtypes.ALL if d.bits <= 8 and (d.is_float or (d.is_integer and d.bits < 8))]
_WORDS = {d.name: d for d in programs.INTEGERS if not d.is_signed}


@pytest.mark.parametrize("hlo", [False, True], ids=["stablehlo", "hlo"])
@pytest.mark.parametrize("k", [0, 4, 17])
@pytest.mark.parametrize("dtype", _NARROW, ids=str)
def test_top_k(dtype: DType, k: int, hlo: bool) -> None:
    """Of equal numbers the first come first; zeros of both signs are not equal."""
    given = np.stack([np.resize(values.specials(dtype), 17)[::step] for step in (1, -1)])
    t, r, i = tensor(dtype, 2, 17), tensor(dtype, 2, k), tensor(dtypes.S32, 2, k)
    text = function([t], [r, i], f"%r:2 = chlo.top_k(%0, k = {k}) : {t} -> ({r}, {i})")

    def judge(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        wide = a.astype(np.float32)
        # NaN above all numbers, below them if its sign is set; -0 below 0.
        sign = np.where(np.signbit(wide), -1.0, 1.0)
        key = np.where(np.isnan(wide), sign * np.inf, wide)
        key = np.where(np.isinf(wide), sign * 1e39, key.astype(np.float64))
        key = np.where(wide == 0, sign * 1e-60, key)
        order = np.argsort(-key, axis=-1, kind="stable")[..., :k]
        return np.take_along_axis(a, order, -1), order.astype(np.int32)

    outcome = run_case(Case("chlo.top_k", "narrow", dtype.name, text, (given,), judge), hlo)
    assert not outcome.detail, outcome.detail


@pytest.mark.parametrize("algorithm", ["THREE_FRY", "PHILOX"])
@pytest.mark.parametrize(
    "dtype",
    [d for d in dtypes.ALL if d.bits != 6 and (d.is_float or (d.is_integer and d.bits < 8))],
    ids=str,
)
def test_random_bits(dtype: DType, algorithm: str) -> None:
    """The bits of the unsigned integers that XLA's CPU backend gives, the low ones of types narrower than a byte."""
    words = _WORDS[f"u{max(8, dtype.bits)}"]
    state = np.array([0x123456789ABCDEF, 2**64 - 2], np.uint64)
    s = tensor(dtypes.U64, 2)

    def text(of: DType) -> str:
        t = tensor(of, 3, 7)
        body = (
            f"%r:2 = stablehlo.rng_bit_generator %0, algorithm = {algorithm} : ({s}) -> ({s}, {t})"
        )
        return function([s], [s, t], body)

    def judge(given: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        new, bits = by_xla(text(words))(given)
        if dtype.bits >= 8:
            return new, bits.view(dtype.numpy)
        low = bits & np.uint8(2**dtype.bits - 1)
        return new, low.astype(_WORDS[f"u{dtype.bits}"].numpy).view(dtype.numpy)

    case = Case("rng_bit_generator", algorithm, dtype.name, text(dtype), (state,), judge)
    outcome = run_case(case)
    assert not outcome.detail, outcome.detail


def test_random_bits_of_no_whole_word_are_refused() -> None:
    s, t = tensor(dtypes.U64, 2), tensor(dtypes.F6E2M3FN, 3)
    body = f"%b:2 = stablehlo.rng_bit_generator %0, algorithm = PHILOX : ({s}) -> ({s}, {t})\n"
    body += f"%r = stablehlo.convert %b#1 : ({t}) -> {tensor(dtypes.F32, 3)}"
    text = function([s], [tensor(dtypes.F32, 3)], body)
    refused = Case(
        "rng_bit_generator",
        "",
        "f6e2m3fn",
        text,
        (np.zeros(2, np.uint64),),
        refused="random bits",
    )
    assert "random bits of type f6e2m3fn" in run_case(refused).message
