"""Convolutions of bf16 that read more numbers than their sums have are computed again where these are infinite."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tripont.core.compiler import pipeline
from tripont.core.compiler.ir import dtypes
from tripont.core.compiler.ir.hlo import WindowDimension as W
from tripont.core.compiler.observe.dump import Dump
from tripont.core.compiler.passes.library.convolution import make_call
from tripont.core.compiler.targets.host import for_cpu

from tests.core.compiler.builders import module
from tests.core.compiler.codegen.emulated_matrices import Registers
from tests.core.compiler.codegen.kernels.test_convolution import convolution, reference
from tests.core.compiler.codegen.kernels.test_matrix_dot import cpu, registers
from tests.core.compiler.test_native import NativeSimulation

__all__ = ["cpu", "registers"]

BF16, F32 = dtypes.BF16, dtypes.F32
SIZES = {"N": 2, "C": 4, "O": 16, "H": 9, "W": 11}
# As HLO has them: N are the input features, C the images.
GRADIENT = {"sizes": {"N": 16, "C": 2, "O": 16, "H": 9, "W": 11}, "layout": "CHWN,IHWO,HWNC"}


@pytest.mark.parametrize(
    ("guarded", "options"),
    [
        (True, {"window": [W(3), W(3)]}),
        (True, {"window": [W(3, 2), W(3, 2)], "sizes": {**SIZES, "C": 2}}),
        (True, {"window": [W(5)], "sizes": {"N": 2, "C": 4, "O": 16, "W": 11}, "layout": "NWC,WIO,NWC"}),
        (False, {"window": [W(2), W(4)]}),  # 32 numbers
        (False, {"window": [W(1), W(3)]}),  # 12
        (False, {"window": [W(3), W(3)], "sizes": {**SIZES, "C": 6}}),
        (False, {"window": [W(3), W(3)], "sizes": {**SIZES, "C": 8}, "feature_groups": 2}),
        (False, {"window": [W(3), W(3)], "dtype": F32}),
    ],
    ids=str,
)  # fmt: skip
def test_windows_that_onednn_reads_past(guarded: bool, options: dict[str, Any]) -> None:
    dtype = options.get("dtype", BF16)
    made = convolution(**{"sizes": SIZES, "dtype": dtype, "result": dtype, **options})
    call = make_call(made, for_cpu("sapphirerapids").costs.library)
    assert call.opcode == ("conditional" if guarded else "library-call")
    assert call.attributes.get("usual") == (0 if guarded else None)
    if guarded:
        usual, exact = (branch.instructions for branch in call.called)
        types = [
            [i.operands[0].dtype for i in b if i.opcode == "library-call"] for b in (usual, exact)
        ]
        assert types == [[BF16], [F32]]


@pytest.mark.parametrize(
    "window",
    [
        [W(9, 1, 1, 1), W(11, 1, 1, 1)],
        [W(7), W(9)],
        [W(5, 1, 1, 1, window_dilation=2), W(6, 1, 1, 1, window_dilation=2)],
        [W(4, 1, window_dilation=2), W(5, 1, window_dilation=2)],
    ],
    ids=lambda w: str([(d.size, d.padding_low, d.window_dilation) for d in w]),
)
@pytest.mark.parametrize("at", [(0, 3, 0, 5), (1, 4, 10, 5)], ids=str)
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # of NumPy, which emulates AMX
@pytest.mark.parametrize("spoilt", [np.inf, np.nan, None], ids=str)
def test_gradients_of_weights_beside_an_infinity(
    spoilt: float | None, at: tuple[int, ...], window: list[W], cpu: str, registers: Registers
) -> None:
    """The sums that have the infinity are not finite, and all others are what they are without it."""
    made = convolution(window=window, dtype=BF16, result=BF16, **GRADIENT)
    after = pipeline.run(module(made.operands, made), for_cpu(cpu, onednn=False), Dump())
    random = np.random.default_rng(0)
    x, y = (random.choice([-1.0, 1.0], o.dims) for o in made.operands)
    taken, place = x.copy(), np.zeros_like(x)
    reached = np.zeros(made.dims, bool)
    if spoilt is not None:
        taken[at], place[at] = 0, 1
        reached = reference(made, place.astype(BF16.numpy), np.ones_like(y).astype(BF16.numpy)) != 0
        x[at] = spoilt
        assert not reached.all()
    (got,) = NativeSimulation(after, cpu).run([x.astype(BF16.numpy), y.astype(BF16.numpy)])
    want = reference(made, taken.astype(BF16.numpy), y.astype(BF16.numpy))
    assert registers.multiplications
    np.testing.assert_array_equal(got[~reached], want[~reached])
    assert not np.isfinite(got[reached].astype(np.float32)).any()
