"""Which convolutions are generated although there is oneDNN, by type, shape and instructions."""

from __future__ import annotations

from typing import Any

import pytest
from tripont.core.compiler.ir import dtypes
from tripont.core.compiler.ir.dtypes import DType
from tripont.core.compiler.ir.hlo import WindowDimension as W
from tripont.core.compiler.passes.library.convolution_costs import prefers_generated
from tripont.core.compiler.passes.library.whole_pairs import needs_f32
from tripont.core.compiler.targets.host import for_cpu

from tests.core.compiler.codegen.kernels.test_convolution import LAYOUTS, SAME, convolution

LARGE = {"N": 2, "C": 64, "O": 64, "H": 20, "W": 20}
LINE = {"N": 2, "C": 64, "O": 64, "W": 400}
CPUS = ("x86-64-v3", "x86-64-v4")


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize(
    ("generated", "options"),
    [
        (False, {}),
        (False, {"layout": LAYOUTS[1]}),
        (True, {"sizes": {**LARGE, "C": 512}}),  # more terms than oneDNN adds up well
        (True, {"sizes": {**LARGE, "O": 3}}),
        (True, {"sizes": {**LARGE, "C": 1}}),
        (True, {"feature_groups": 64}),  # a kernel of their own
        (False, {"feature_groups": 64, "layout": LAYOUTS[2]}),
        (True, {"feature_groups": 64, "layout": LAYOUTS[1]}),
        (False, {"feature_groups": 4}),
        (True, {"feature_groups": 8}),  # of 8 features
        (False, {"window": [W(4, 1, 2, 2, base_dilation=2)] * 2}),
        (True, {"window": [W(40, 1, 1, 1, base_dilation=2)] * 2}),
    ],
    ids=str,
)
def test_f32(generated: bool, options: dict[str, Any], cpu: str) -> None:
    made = convolution(**{"sizes": LARGE, "window": SAME, **options})
    assert prefers_generated(made, for_cpu(cpu)) is generated
    assert prefers_generated(made, for_cpu(cpu, onednn=False))


@pytest.mark.parametrize(
    ("dtype", "result", "cpu", "generated"),
    [
        (dtypes.S8, dtypes.S32, "x86-64-v2", True),
        (dtypes.F64, dtypes.F64, "x86-64-v3", True),
        (dtypes.BF16, dtypes.BF16, "x86-64-v3", False),  # oneDNN in f32
        (dtypes.BF16, dtypes.BF16, "x86-64-v4", True),
        (dtypes.BF16, dtypes.F32, "cooperlake", True),
        (dtypes.BF16, dtypes.BF16, "sapphirerapids+amx-bf16", False),
        (dtypes.BF16, dtypes.BF16, "znver4", False),
        (dtypes.F16, dtypes.F16, "x86-64-v4", False),
    ],
    ids=str,
)
def test_types(dtype: DType, result: DType, cpu: str, generated: bool) -> None:
    made = convolution(LARGE, SAME, dtype=dtype, result=result)
    assert prefers_generated(made, for_cpu(cpu)) is generated


def _gradient_of_weights(features: int, stride: int) -> dict[str, Any]:
    """That of a convolution of ``features`` to 64 with windows of 3x3, whose results are 9x9."""
    size = 8 * stride + 3
    return {
        "sizes": {"N": features, "C": 8, "O": 64, "H": size, "W": size},
        "window": [W(9, window_dilation=stride)] * 2,
        "layout": LAYOUTS[3],
    }


# The gradient of weights of windows of 16x16 beside each other: they have more elements than there are results.
PATCHES: dict[str, Any] = {
    "sizes": {"N": 3, "C": 8, "O": 64, "H": 144, "W": 144},
    "window": [W(9, window_dilation=16)] * 2,
    "layout": LAYOUTS[3],
}


@pytest.mark.parametrize(
    ("options", "on_zen", "elsewhere"),
    [
        ({}, False, False),
        ({"layout": LAYOUTS[1]}, False, False),
        ({"sizes": LINE, "window": SAME[:1], "layout": "NCW,OIW,NCW"}, True, False),
        ({"sizes": LINE, "window": SAME[:1], "layout": "NWC,WIO,NWC"}, False, False),
        ({"feature_groups": 4}, False, False),
        (_gradient_of_weights(64, 1), False, False),
        (_gradient_of_weights(64, 2), True, False),
        (_gradient_of_weights(3, 2), True, False),
        ({**_gradient_of_weights(3, 1), "window": [W(7)] * 2}, False, False),  # windows of 5x5
        ({**_gradient_of_weights(64, 1), "batch_groups": 4}, True, False),
    ],
    ids=str,
)
def test_f32_on_zen_4(options: dict[str, Any], on_zen: bool, elsewhere: bool) -> None:
    made = convolution(**{"sizes": LARGE, "window": SAME, **options})
    assert prefers_generated(made, for_cpu("znver4")) is on_zen
    assert prefers_generated(made, for_cpu("x86-64-v4")) is elsewhere


FIRST = "CNHW,IOHW,NCHW"  # of a gradient of weights, features first
# Depthwise, and not with features last in the result, where it has a kernel of its own.
STREWN: dict[str, Any] = {"feature_groups": 64, "layout": LAYOUTS[2]}
WIDE = {"sizes": {"N": 128, "C": 8, "O": 128, "H": 20, "W": 20}, "layout": LAYOUTS[3]}


@pytest.mark.parametrize(
    ("options", "zen_5", "zen_4"),
    [
        # Gradients of inputs: of groups of 8 features, and of depthwise windows.
        ({"feature_groups": 8, "window": [W(3, 1, 1, 1, reversal=True)] * 2}, True, False),
        ({**STREWN, "window": [W(7, 1, 3, 3, reversal=True)] * 2}, True, False),
        ({**STREWN, "window": [W(3, 1, 1, 1, reversal=True)] * 2}, False, False),
        # Gradients of weights: of groups of 8 features and of 64, of many features and terms, and of too few terms.
        ({**_gradient_of_weights(64, 1), "batch_groups": 8}, False, True),
        ({**_gradient_of_weights(64, 1), "batch_groups": 2}, True, True),
        ({**WIDE, "window": [W(18)] * 2}, True, False),
        ({**WIDE, "window": [W(20)] * 2}, True, True),
        ({**_gradient_of_weights(64, 1)}, False, False),
        # Of three input features, and of too few or too many, or features first; of windows that lie apart.
        (_gradient_of_weights(3, 1), True, True),
        (_gradient_of_weights(1, 1), False, False),
        (_gradient_of_weights(5, 1), False, False),
        ({**_gradient_of_weights(3, 1), "layout": FIRST}, False, False),
        ({**_gradient_of_weights(32, 1), "window": [W(11)] * 2}, True, True),
        ({**_gradient_of_weights(32, 1), "window": [W(11)] * 2, "layout": FIRST}, True, True),
        (PATCHES, True, True),
        ({**PATCHES, "layout": FIRST}, True, True),
        # Of so many features that the kernel is far, in few terms.
        (
            {**WIDE, "sizes": {"N": 512, "C": 1, "O": 512, "H": 9, "W": 9}, "window": [W(7)] * 2},
            True,
            True,
        ),
        (
            {**WIDE, "sizes": {"N": 511, "C": 1, "O": 512, "H": 9, "W": 9}, "window": [W(7)] * 2},
            False,
            False,
        ),
        # Patches of three features.
        ({"sizes": {**LARGE, "C": 3}, "window": [W(4, 4)] * 2}, True, True),
        ({"sizes": {**LARGE, "C": 3}, "window": [W(2, 2)] * 2}, False, False),
        ({"sizes": {**LARGE, "C": 5}, "window": [W(4, 4)] * 2}, False, False),
        # Windows of one element, features first and last.
        ({"window": [W(1)] * 2, "layout": LAYOUTS[1]}, True, True),
        ({"window": [W(1, 2)] * 2, "layout": LAYOUTS[1]}, True, True),
        ({"window": [W(1, base_dilation=2)] * 2, "layout": LAYOUTS[1]}, True, False),  # an input's
        ({"window": [W(1)] * 2}, False, False),
        ({"window": [W(1, 2)] * 2}, False, False),
    ],
    ids=str,
)
def test_f32_on_zen_5(options: dict[str, Any], zen_5: bool, zen_4: bool) -> None:
    made = convolution(**{"sizes": LARGE, "window": SAME, **options})
    assert prefers_generated(made, for_cpu("znver5")) is zen_5
    assert prefers_generated(made, for_cpu("znver4")) is zen_4


BACKWARDS = W(3, 1, 1, 1, reversal=True)
UP = W(4, 1, 2, 2, base_dilation=2)


@pytest.mark.parametrize(
    ("options", "zen_3", "elsewhere"),
    [
        # Gradients of weights: of windows of 3x3, of a window of one element, and of few features.
        (_gradient_of_weights(64, 1), True, False),
        (_gradient_of_weights(8, 1), True, False),
        (_gradient_of_weights(7, 1), False, False),
        ({**_gradient_of_weights(64, 1), "layout": FIRST}, True, False),
        ({**_gradient_of_weights(1, 1), "layout": FIRST}, True, False),
        ({**_gradient_of_weights(64, 1), "window": [W(11)] * 2}, True, False),
        (_gradient_of_weights(3, 2), True, False),  # windows that overlap
        (_gradient_of_weights(3, 3), True, False),  # and that do not
        ({**_gradient_of_weights(3, 1), "window": [W(7)] * 2}, False, False),  # windows of 5x5
        (PATCHES, True, False),
        ({**_gradient_of_weights(64, 1), "batch_groups": 4}, False, False),
        # Transposed ones, and the gradients of strided ones, whose windows are reversed.
        ({"window": [UP] * 2}, False, False),
        ({"window": [UP] * 2, "feature_groups": 2}, False, False),
        ({"window": [W(4, 1, 5, 5, base_dilation=2, window_dilation=2)] * 2}, False, False),
        ({"window": [W(4, 1, 2, 2, base_dilation=2, reversal=True)] * 2}, False, False),
        ({"window": [W(1, base_dilation=2)] * 2}, False, False),
        # Patches of three features, and of many.
        ({"sizes": {**LARGE, "C": 3}, "window": [W(4, 4)] * 2}, True, False),
        ({"sizes": {**LARGE, "C": 3}, "window": [W(4, 3)] * 2}, False, False),
        ({"window": [W(4, 4)] * 2}, True, False),
        # ... and the gradients of their inputs, and of those of windows that overlap.
        ({"window": [W(2, 1, 1, 1, base_dilation=2, reversal=True)] * 2}, True, False),
        ({"window": [W(2, 1, 1, 1, base_dilation=2)] * 2}, True, False),
        ({"window": [W(3, 1, 1, 1, base_dilation=2, reversal=True)] * 2}, False, False),
        # Few features in and out, features last.
        ({"sizes": {**LARGE, "C": 8, "O": 8}}, True, False),
        ({"sizes": {**LARGE, "C": 8, "O": 9}}, False, False),
        ({"sizes": {**LARGE, "C": 8, "O": 8}, "window": [W(3, 2, 1, 1)] * 2}, False, False),
        ({"sizes": {**LARGE, "C": 16, "O": 16}, "window": [BACKWARDS] * 2}, True, False),
        ({"sizes": {**LARGE, "C": 17, "O": 16}, "window": [BACKWARDS] * 2}, False, False),
        # Groups of 16 features and of 32.
        ({"feature_groups": 4}, True, False),
        ({"feature_groups": 2}, False, False),
        ({"feature_groups": 4, "window": [BACKWARDS] * 2}, True, False),
        ({"feature_groups": 2, "window": [BACKWARDS] * 2}, False, False),
        ({"feature_groups": 24, "sizes": {**LARGE, "C": 384, "O": 384}}, True, False),
        ({"feature_groups": 32, "sizes": {**LARGE, "C": 512, "O": 512}}, False, False),
        ({"feature_groups": 64, "sizes": {**LARGE, "C": 512, "O": 512}}, False, True),
        (
            {"feature_groups": 64, "sizes": {**LARGE, "C": 512, "O": 512}, "layout": LAYOUTS[1]},
            True,
            True,
        ),
        ({"sizes": LINE, "window": SAME[:1], "layout": "NCW,OIW,NCW"}, True, False),
        ({"sizes": LINE, "window": SAME[:1], "layout": "NWC,WIO,NWC"}, False, False),
        ({}, False, False),
    ],
    ids=str,
)
@pytest.mark.parametrize("dtype", [dtypes.F32, dtypes.BF16], ids=str)  # oneDNN's bf16 is in f32
def test_floats_on_zen_3(
    options: dict[str, Any], zen_3: bool, elsewhere: bool, dtype: DType
) -> None:
    given = {"sizes": LARGE, "window": SAME, "dtype": dtype, **options}
    made = convolution(**given)
    assert prefers_generated(made, for_cpu("znver3")) is zen_3
    assert prefers_generated(made, for_cpu("x86-64-v3")) is elsewhere


@pytest.mark.parametrize(
    ("zen_3", "features", "width", "options"),
    [
        (True, 16, 24, {}),
        (True, 16, 20, {}),  # 20 is not whole vectors of 8
        (True, 64, 24, {}),
        (False, 65, 24, {}),
        (False, 17, 20, {}),
        (True, 32, 24, {"window": [BACKWARDS] * 2}),
        (False, 33, 24, {"window": [BACKWARDS] * 2}),
        (True, 8, 20, {"window": [BACKWARDS] * 2}),
        (False, 9, 20, {"window": [BACKWARDS] * 2}),
        (True, 512, 20, {"window": [W(1)] * 2}),
        (False, 512, 20, {"window": [W(1, 2)] * 2}),
        (False, 512, 20, {"window": [W(1)] * 2, "layout": LAYOUTS[0]}),
        (True, 512, 20, {"window": [W(1)] * 2, "dtype": dtypes.BF16}),
        (True, 64, 24, {"dtype": dtypes.BF16}),
        (False, 65, 24, {"dtype": dtypes.BF16}),
        (True, 64, 24, {"dtype": dtypes.F16}),
    ],
    ids=str,
)
def test_f32_features_first_on_zen_3(
    zen_3: bool, features: int, width: int, options: dict[str, Any]
) -> None:
    outputs = 8 if options.get("window") == [BACKWARDS] * 2 else 16
    sizes = {"N": 2, "C": features, "O": outputs, "H": 20, "W": width}
    made = convolution(**{"sizes": sizes, "window": SAME, "layout": LAYOUTS[1], **options})
    assert prefers_generated(made, for_cpu("znver3")) is zen_3
    assert not prefers_generated(made, for_cpu("x86-64-v3"))


@pytest.mark.parametrize(
    ("zen_3", "features", "options"),
    [
        (True, 4, {}),
        (False, 5, {}),
        (True, 4, {"window": [BACKWARDS] * 2}),
        (False, 4, {"window": [W(3, 2, 1, 1)] * 2}),
        (False, 4, {"layout": LAYOUTS[0]}),
    ],
    ids=str,
)
def test_f32_of_few_input_features_first_on_zen_3(
    zen_3: bool, features: int, options: dict[str, Any]
) -> None:
    sizes = {"N": 2, "C": features, "O": 320, "H": 20, "W": 21}
    made = convolution(**{"sizes": sizes, "window": SAME, "layout": LAYOUTS[1], **options})
    assert prefers_generated(made, for_cpu("znver3")) is zen_3
    assert not prefers_generated(made, for_cpu("x86-64-v3"))


@pytest.mark.parametrize(
    ("zen_3", "options"),
    [
        (True, {}),
        (False, {"sizes": {"N": 2, "C": 99, "O": 96, "H": 20, "W": 24}}),  # groups of 33
        (False, {"sizes": {"N": 2, "C": 96, "O": 96, "H": 20, "W": 20}}),  # no whole vectors
        (False, {"window": [W(3, 2, 1, 1)] * 2}),
        (False, {"window": [BACKWARDS] * 2}),
        (False, {"layout": LAYOUTS[0]}),
    ],
    ids=str,
)
def test_f32_groups_features_first_on_zen_3(zen_3: bool, options: dict[str, Any]) -> None:
    sizes = {"N": 2, "C": 96, "O": 96, "H": 20, "W": 24}
    given = {"sizes": sizes, "window": SAME, "layout": LAYOUTS[1], "feature_groups": 3}
    made = convolution(**{**given, **options})
    assert prefers_generated(made, for_cpu("znver3")) is zen_3
    for other in ("x86-64-v3", "znver4", "znver5"):
        assert not prefers_generated(made, for_cpu(other))


@pytest.mark.parametrize(
    ("zen_3", "options"),
    [
        (True, {}),
        (False, {"window": [W(3, 2, 1, 1)] * 2}),
        (False, {"window": [W(4, 2, 1, 1), W(4, 1, 1, 1)]}),
        (False, {"layout": LAYOUTS[0]}),
        (False, {"feature_groups": 2}),
    ],
    ids=str,
)
def test_windows_of_two_strides_features_first(zen_3: bool, options: dict[str, Any]) -> None:
    """As inputs' gradients of transposed convolutions have them."""
    given = {"sizes": LARGE, "window": [W(4, 2, 1, 1)] * 2, "layout": LAYOUTS[1]}
    made = convolution(**{**given, **options})
    assert prefers_generated(made, for_cpu("znver3")) is zen_3
    for other in ("x86-64-v3", "znver4", "znver5"):
        assert not prefers_generated(made, for_cpu(other))


TWO = [W(2, 2)] * 2  # windows that lie apart
UP_TWO = [W(2, 1, 1, 1, base_dilation=2)] * 2
CUBES = {"N": 2, "C": 64, "O": 64, "D": 4, "H": 32, "W": 32}


@pytest.mark.parametrize(
    ("f32", "bf16", "options"),
    [
        (True, True, {"window": TWO, "sizes": {**LARGE, "H": 32, "W": 32}}),
        (False, False, {"window": TWO, "sizes": {**LARGE, "H": 32, "W": 30}}),  # results 15 wide
        (True, False, {"window": TWO, "sizes": {**LARGE, "C": 65, "H": 32, "W": 32}}),
        (True, False, {"window": TWO, "sizes": {**LARGE, "O": 65, "H": 32, "W": 32}}),
        (False, False, {"window": [W(3, 2, 1, 1)] * 2, "sizes": {**LARGE, "H": 32, "W": 32}}),
        (False, False, {"window": TWO, "sizes": {**LARGE, "H": 32, "W": 32}, "feature_groups": 2}),
        (False, False, {"window": TWO, "sizes": {**LARGE, "H": 32, "W": 32}, "layout": LAYOUTS[0]}),
        (True, True, {"window": UP_TWO, "sizes": {**LARGE, "W": 16}}),
        (False, False, {"window": UP_TWO, "sizes": {**LARGE, "W": 15}}),
        (False, False, {"window": [UP] * 2}),
        (True, True, {"window": [W(2, 2)] * 3, "sizes": CUBES, "layout": "NCDHW,OIDHW,NCDHW"}),
    ],
    ids=str,
)  # fmt: skip
def test_windows_that_lie_apart_features_first(
    f32: bool, bf16: bool, options: dict[str, Any]
) -> None:
    """On a Zen 5, and gradients of their inputs, which transposed convolutions are."""
    for dtype, generated in ((dtypes.F32, f32), (dtypes.BF16, bf16)):
        given = {"sizes": LARGE, "layout": LAYOUTS[1], "dtype": dtype, "result": dtype}
        made = convolution(**{**given, **options})
        assert prefers_generated(made, for_cpu("znver5")) is generated
        assert not prefers_generated(made, for_cpu("znver4"))


@pytest.mark.parametrize(("generated", "groups"), [(True, 8), (False, 4), (False, 64)])
def test_bf16_gradients_of_weights_in_groups_features_first(generated: bool, groups: int) -> None:
    """Of up to 8 features each, on a Zen 5."""
    given = {**_gradient_of_weights(64, 1), "batch_groups": groups, "layout": FIRST}
    made = convolution(**given, dtype=dtypes.BF16, result=dtypes.BF16)
    assert prefers_generated(made, for_cpu("znver5")) is generated
    assert not prefers_generated(made, for_cpu("znver4"))


@pytest.mark.parametrize("width", [20, 32])
def test_f32_gradients_of_inputs_of_few_features_first(width: int) -> None:
    """In any width on a Zen 3 and 4; on a Zen 5, where that was not measured, in whole vectors."""
    sizes = {"N": 2, "C": 8, "O": 8, "H": 20, "W": width}
    made = convolution(sizes, [BACKWARDS] * 2, LAYOUTS[1])
    assert prefers_generated(made, for_cpu("znver3"))
    assert prefers_generated(made, for_cpu("znver4"))
    whole = width % (for_cpu("znver5").vector_bytes // 4) == 0
    assert prefers_generated(made, for_cpu("znver5")) is whole


@pytest.mark.parametrize("groups", [2, 4, 8])
def test_f32_gradients_of_weights_in_groups_on_zen_3(groups: int) -> None:
    """Generated with features first, a library's with features last."""
    given = {**_gradient_of_weights(64, 1), "batch_groups": groups}
    assert not prefers_generated(convolution(**given), for_cpu("znver3"))
    first = convolution(**{**given, "layout": FIRST})
    assert prefers_generated(first, for_cpu("znver3"))
    assert not prefers_generated(first, for_cpu("x86-64-v3"))


@pytest.mark.parametrize("window", [5, 7])
def test_strided_depthwise_gradients_of_inputs(window: int) -> None:
    """Generated, each residue of the stride is a feature, and those of a group fill no vector."""
    dilated = [W(window, 1, window // 2, window // 2, base_dilation=2, reversal=True)] * 2
    made = convolution(LARGE, dilated, feature_groups=64)
    for cpu in ("znver3", "znver4", "znver5"):
        assert not prefers_generated(made, for_cpu(cpu))


@pytest.mark.parametrize("cpu", ["znver4", "znver5", "emeraldrapids+amx-bf16"])
def test_depthwise_of_bf16_with_strides(cpu: str) -> None:
    """Where oneDNN has instructions for bf16 too: a zero beside each feature, for its pairs, took 17 times as long."""
    settings: dict[str, Any] = {"feature_groups": 64, "dtype": dtypes.BF16, "result": dtypes.BF16}
    forward = convolution(LARGE, [W(3, 2, 1, 1)] * 2, **settings)
    assert prefers_generated(forward, for_cpu(cpu))
    dilated = [W(3, 1, 1, 2, base_dilation=2, reversal=True)] * 2
    gradient = convolution(LARGE, dilated, **settings)
    assert not prefers_generated(gradient, for_cpu(cpu))
    assert needs_f32(gradient)


@pytest.mark.parametrize(
    ("zen_5", "features", "width", "options"),
    [
        (True, 64, 32, {}),
        (False, 65, 32, {}),
        (True, 16, 20, {}),
        (False, 17, 20, {}),
        (True, 32, 32, {"window": [W(3, 1, 1, 1, reversal=True)] * 2}),
        (False, 64, 32, {"window": [W(3, 1, 1, 1, reversal=True)] * 2}),
        (False, 16, 20, {"window": [W(3, 1, 1, 1, reversal=True)] * 2}),
        (False, 16, 32, {"window": [W(3, 2, 1, 1)] * 2}),
        (False, 16, 32, {"layout": LAYOUTS[0]}),
        (True, 16, 32, {"dtype": dtypes.F16, "result": dtypes.F16}),
    ],
    ids=str,
)
def test_f32_of_few_features_first(
    zen_5: bool, features: int, width: int, options: dict[str, Any]
) -> None:
    sizes = {"N": 2, "C": features, "O": 16, "H": 20, "W": width}
    made = convolution(**{"sizes": sizes, "window": SAME, "layout": LAYOUTS[1], **options})
    assert prefers_generated(made, for_cpu("znver5")) is zen_5
    assert prefers_generated(made, for_cpu("znver4")) is zen_5


@pytest.mark.parametrize(
    ("zen_5", "features", "width"),
    [(True, 32, 16), (True, 128, 32), (False, 31, 16), (False, 32, 17)],
)
def test_f32_gradients_of_weights_features_first(zen_5: bool, features: int, width: int) -> None:
    """Of a convolution of ``features`` to 64 in 3x3 whose results are ``width`` wide: features are its batch."""
    sizes = {"N": features, "C": 2, "O": 64, "H": width + 2, "W": width + 2}
    made = convolution(sizes, [W(width)] * 2, "CNHW,IOHW,NCHW")
    assert prefers_generated(made, for_cpu("znver5")) is zen_5
    assert prefers_generated(made, for_cpu("znver4")) is zen_5
    assert not prefers_generated(made, for_cpu("x86-64-v4"))


@pytest.mark.parametrize(
    ("generated", "result", "options"),
    [
        (False, dtypes.BF16, {"layout": LAYOUTS[1]}),
        (False, dtypes.BF16, {"sizes": {**LARGE, "C": 512}}),
        (True, dtypes.F32, {"sizes": {**LARGE, "C": 512}}),
        (True, dtypes.BF16, {"sizes": {**LARGE, "C": 2048}}),
        (True, dtypes.BF16, {"sizes": {**LARGE, "O": 3}}),
        (
            False,
            dtypes.BF16,
            _gradient_of_weights(31, 2),
        ),  # of fewer features than it has pairs for
        (False, dtypes.BF16, _gradient_of_weights(3, 2)),
        (True, dtypes.BF16, _gradient_of_weights(3, 3)),  # windows beside each other
        (False, dtypes.BF16, _gradient_of_weights(64, 3)),
        (False, dtypes.BF16, PATCHES),  # of 16x16
    ],
    ids=str,
)
def test_bf16_of_one_dnn(generated: bool, result: DType, options: dict[str, Any]) -> None:
    """On a CPU whose instructions for bf16 oneDNN uses."""
    made = convolution(
        **{"sizes": LARGE, "window": SAME, "dtype": dtypes.BF16, "result": result, **options}
    )
    assert prefers_generated(made, for_cpu("znver4")) is generated
    assert prefers_generated(made, for_cpu("znver5")) is generated


@pytest.mark.parametrize(
    ("zen_5", "zen_4", "options"),
    [
        (False, False, {}),
        (True, False, {"sizes": {**LARGE, "C": 16}}),
        (True, False, {"sizes": {**LARGE, "O": 16}, "window": [W(3, 2, 1, 1)] * 2}),
        (False, False, {"sizes": {**LARGE, "C": 17}}),
        (
            True,
            False,
            {"sizes": {**LARGE, "C": 32, "O": 32}, "window": [W(3, 1, 1, 1, reversal=True)] * 2},
        ),
        (
            False,
            False,
            {"sizes": {**LARGE, "C": 16, "O": 33}, "window": [W(3, 1, 1, 1, reversal=True)] * 2},
        ),
        (False, False, {"sizes": {**LARGE, "C": 32, "O": 32}, "feature_groups": 2}),
        (True, False, {"window": [W(1)] * 2}),
        (True, True, {"window": [W(1)] * 2, "layout": LAYOUTS[1]}),
        (True, True, {"sizes": {**LARGE, "W": 32}, "layout": LAYOUTS[1]}),
        (False, False, {"layout": LAYOUTS[1]}),
        (False, False, _gradient_of_weights(16, 1)),
        (True, True, _gradient_of_weights(3, 1)),  # as in f32
    ],
    ids=str,
)
def test_f16_on_zen_5(zen_5: bool, zen_4: bool, options: dict[str, Any]) -> None:
    given = {"sizes": LARGE, "window": SAME, "dtype": dtypes.F16, "result": dtypes.F16}
    made = convolution(**{**given, **options})
    assert prefers_generated(made, for_cpu("znver5")) is zen_5
    assert prefers_generated(made, for_cpu("znver4")) is zen_4


@pytest.mark.parametrize(
    ("zen_5", "features", "outputs", "options"),
    [
        (True, 8, 8, {}),
        (False, 8, 9, {}),
        (False, 8, 8, {"window": [W(3, 2, 1, 1)] * 2}),
        (True, 3, 64, {}),
        (True, 4, 64, {"window": [W(3, 2, 1, 1)] * 2}),
        (False, 3, 64, {"window": [W(5, 1, 2, 2)] * 2}),
        (True, 64, 64, {"feature_groups": 8}),
        (True, 64, 64, {"feature_groups": 8, "window": [W(3, 1, 1, 1, reversal=True)] * 2}),
        (False, 64, 64, {"feature_groups": 4}),
        (False, 8, 8, {"layout": LAYOUTS[0]}),
        (False, 64, 64, {"feature_groups": 8, "layout": LAYOUTS[0]}),
    ],
    ids=str,
)
def test_bf16_of_few_features_first(
    zen_5: bool, features: int, outputs: int, options: dict[str, Any]
) -> None:
    sizes = {"N": 2, "C": features, "O": outputs, "H": 20, "W": 20}
    given = {"sizes": sizes, "window": SAME, "layout": LAYOUTS[1], "dtype": dtypes.BF16}
    made = convolution(**{**given, "result": dtypes.BF16, **options})
    assert prefers_generated(made, for_cpu("znver5")) is zen_5
    plain = options.keys() <= {"layout"}  # without groups and strides
    assert prefers_generated(made, for_cpu("znver4")) is (zen_5 and plain)


@pytest.mark.parametrize(
    ("zen_4", "features", "stride", "taps"),
    [(True, 32, 2, 1), (False, 31, 2, 1), (False, 32, 1, 1), (False, 32, 2, 3)],
)
def test_bf16_gradients_of_strided_points_features_first(
    zen_4: bool, features: int, stride: int, taps: int
) -> None:
    """Of windows of one element in pairs, not of those of 3x3."""
    size = 8 * stride + taps
    sizes = {"N": features, "C": 2, "O": 64, "H": size, "W": size}
    window = [W(9, window_dilation=stride)] * 2
    made = convolution(sizes, window, "CNHW,IOHW,NCHW", dtype=dtypes.BF16, result=dtypes.BF16)
    assert prefers_generated(made, for_cpu("znver4")) is zen_4
    assert not prefers_generated(made, for_cpu("znver5"))


@pytest.mark.parametrize("dtype", [dtypes.F32, dtypes.BF16], ids=str)
def test_gradients_of_the_weights_of_dilated_convolutions(dtype: DType) -> None:
    """oneDNN's bf16 is twice as fast on a Zen 4 in two dimensions, faster on a Zen 5, and slow in one."""
    flat = W(40, 1, 1, 1, base_dilation=2)
    given: dict[str, Any] = {"dtype": dtype, "result": dtype}
    two = convolution({**LARGE, "C": 8}, [flat] * 2, **given)
    one = convolution({"N": 4, "C": 64, "O": 64, "W": 16}, [flat], "NWC,WIO,NWC", **given)
    for cpu in ("znver4", "znver5"):
        assert prefers_generated(one, for_cpu(cpu))
        assert prefers_generated(two, for_cpu(cpu)) is (dtype is dtypes.F32)


@pytest.mark.parametrize(
    ("with_tiles", "on_zen", "options"),
    [
        (False, True, {"sizes": {**LARGE, "O": 3}}),
        (True, True, {"sizes": {**LARGE, "C": 1}}),
        (False, False, {"feature_groups": 4}),
        (True, False, {"feature_groups": 8}),
        (True, True, {"feature_groups": 64}),
        (True, True, {"feature_groups": 64, "window": [W(3, 2, 1, 1)] * 2}),
        (False, False, STREWN),
        (True, False, {**STREWN, "window": [W(5, 1, 2, 2)] * 2}),
        (True, True, _gradient_of_weights(3, 3)),
        (False, False, {**_gradient_of_weights(64, 1), "batch_groups": 8}),
        (True, False, {**_gradient_of_weights(64, 1), "batch_groups": 4}),
        (True, True, _gradient_of_weights(64, 1)),  # in pairs, on a Zen 4
        (True, True, _gradient_of_weights(64, 2)),
        (True, False, _gradient_of_weights(24, 1)),
        (False, False, _gradient_of_weights(64, 3)),  # of 9 residues
        (False, False, _gradient_of_weights(8, 1)),
        (True, False, {"layout": LAYOUTS[1]}),
        (True, False, {"window": [W(4, 1, 2, 2, base_dilation=2)] * 2}),
    ],
    ids=str,
)
def test_bf16_in_tiles(with_tiles: bool, on_zen: bool, options: dict[str, Any]) -> None:
    """AMX makes few output features fast, and groups of few features slow."""
    made = convolution(
        **{"sizes": LARGE, "window": SAME, "dtype": dtypes.BF16, "result": dtypes.BF16, **options}
    )
    assert prefers_generated(made, for_cpu("emeraldrapids+amx-bf16")) is with_tiles
    assert prefers_generated(made, for_cpu("znver4")) is on_zen


@pytest.mark.parametrize(
    ("generated", "features", "window"), [(True, 512, 7), (False, 511, 7), (False, 512, 9)]
)
def test_f32_gradients_of_vast_weights(generated: bool, features: int, window: int) -> None:
    """Of windows of 3x3, and of one element, which are products if they are not a library's."""
    sizes = {"N": 512, "C": 1, "O": features, "H": 9, "W": 9}
    made = convolution(sizes, [W(window)] * 2, "CHWN,IHWO,HWNC")
    assert prefers_generated(made, for_cpu("emeraldrapids")) is generated
    for other in ("emeraldrapids+amx-bf16", "cascadelake"):
        assert not prefers_generated(made, for_cpu(other))
