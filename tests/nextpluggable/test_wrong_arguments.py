"""Arguments that the CPU's kernels refuse, and results of the types that ops promise.

The kernels of TensorFlow's bridge to XLA leave many checks to the building of a graph. In an eager call there is none:
each of these calls ended the process, or gave numbers, before the op's shape function was asked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

op = tf.raw_ops
_IMAGE = (2, 5, 6, 3)
_LARGE = 2**31 - 1


def _normalization_gradient(
    *, gradient: tuple[int, ...] = _IMAGE, x: tuple[int, ...] = _IMAGE
) -> Any:
    ones = tf.ones(3)
    return op.FusedBatchNormGradV3(
        y_backprop=tf.ones(gradient), x=tf.ones(x), scale=ones, reserve_space_1=ones, reserve_space_2=ones,
        reserve_space_3=ones, is_training=False,
    )  # fmt: skip


def _diagonals(name: str, x: tuple[int, ...], k: Any, **arguments: Any) -> Any:
    return getattr(op, name)(k=k, **{key: tf.ones(x) for key in ("input",)}, **arguments)


def _scatter(name: str, updates: tuple[int, ...]) -> Any:
    variable = tf.Variable(tf.zeros((4, 3)))
    return getattr(op, name)(resource=variable.handle, indices=[0, 2], updates=tf.ones(updates))


def _pool_gradient(sizes: list[int], steps: list[int]) -> Any:
    x, y = tf.ones((1, 4, 5, 6, 2)), tf.ones((1, 4, 3, 6, 2))
    return op.MaxPool3DGrad(
        orig_input=x, orig_output=y, grad=y, ksize=sizes, strides=steps, padding="SAME"
    )


# Each ended the process.
ABORTS: dict[str, Callable[[], Any]] = {
    "batch norm of another rank": lambda: _normalization_gradient(x=(5, 6, 3)),
    "batch norm of another batch": lambda: _normalization_gradient(gradient=(3, 5, 6, 3)),
    "blocks of negative size": lambda: op.BatchToSpaceND(
        input=tf.ones((8, 3, 2, 5)), crops=[[0, 1], [1, 0]], block_shape=[-1, -1]
    ),
    "convolution without channels": lambda: op.Conv(
        input=tf.ones(_IMAGE), filter=tf.ones((3, 3, 3, 2)), strides=[1] * 4, padding="SAME", batch_dims=7
    ),
    "diagonal outside": lambda: _diagonals(
        "MatrixDiagPartV3", (2, 3, 4), [_LARGE, _LARGE], padding_value=0.0
    ),
    "diagonal set outside": lambda: _diagonals(
        "MatrixSetDiagV3", (2, 3, 4), [_LARGE, _LARGE], diagonal=tf.ones((2, 2, 3))
    ),
    "diagonal of a matrix too large": lambda: op.MatrixDiagV2(
        diagonal=tf.ones((2, 3, 3)), k=[_LARGE, _LARGE], num_rows=-1, num_cols=-1, padding_value=0.0
    ),
    "solution by a scalar": lambda: op.MatrixTriangularSolve(matrix=1.0, rhs=tf.ones((3, 2))),
    "stitched far out": lambda: op.DynamicStitch(
        indices=[[_LARGE, 0]], data=[tf.ones((2, 3))]
    ),
    "transform of negative length": lambda: op.IRFFT(
        input=tf.ones((4, 5), tf.complex64), fft_length=[-1]
    ),
    "patches without channels": lambda: op.ExtractImagePatches(
        images=tf.ones((2, 5, 6, 0)), ksizes=[1, 2, 2, 1], strides=[1, 2, 2, 1], rates=[1] * 4,
        padding="VALID",
    ),
    "average over nothing": lambda: op.AvgPool3D(
        input=tf.ones((1, 4, 5, 6, 2)), ksize=[0, 2, 2, 2, 1], strides=[1] * 5, padding="SAME"
    ),
    "gradient of a maximum of nothing": lambda: _pool_gradient([1, 2, 0, 3, 1], [1, 1, 2, 1, 1]),
    "gradient of a maximum back to front": lambda: _pool_gradient(
        [1, 2, 2, 3, 1], [-_LARGE, 1, 2, 1, 1]
    ),
    "gradient of a maximum with too many steps": lambda: _pool_gradient(
        [1, 2, 2, 3, 1], [1, 1, 2, 1, 1, 1]
    ),
    "gradient of a slice of an array too large": lambda: op.StridedSliceGrad(
        shape=[_LARGE, _LARGE], begin=[1, 0], end=[4, 4], strides=[2, 2], dy=tf.ones((2, 2))
    ),
    "difference of bools": lambda: op.ResourceScatterNdSub(
        ref=tf.Variable([True, False]).handle, indices=[[0]], updates=[True]
    ),
}  # fmt: skip
# Each gave numbers.
ACCEPTED: dict[str, Callable[[], Any]] = {
    "product of other batches": lambda: op.BatchMatMul(x=tf.ones((2, 3, 4)), y=tf.ones((3, 4, 5))),
    "product with nothing": lambda: op.BatchMatMulV2(x=tf.ones((2, 3, 4)), y=tf.ones((0, 5))),
    "product along other sizes": lambda: op.BatchMatMulV3(
        x=tf.ones((2, 3, 4)), y=tf.ones((2, 4, 5)), adj_x=True, Tout=tf.float32
    ),
    "groups that do not divide": lambda: op.Conv(
        input=tf.ones(_IMAGE), filter=tf.ones((3, 3, 3, 2)), strides=[1] * 4, padding="SAME", groups=7
    ),
    "diagonal of an oblong": lambda: op.Einsum(inputs=[tf.ones((2, 3, 1))], equation="bii->b"),
    "range of a vector": lambda: op.FakeQuantWithMinMaxVars(
        inputs=tf.ones(4), min=tf.zeros(4), max=tf.ones(4)
    ),
    "transform to other precision": lambda: op.RFFT(
        input=tf.ones((2, 8), tf.float64), fft_length=[8], Tcomplex=tf.complex64
    ),
    "transform from other precision": lambda: op.IRFFT2D(
        input=tf.ones((2, 8, 5), tf.complex64), fft_length=[8, 8], Treal=tf.float64
    ),
    "gradient of a slice of nothing": lambda: op.StridedSliceGrad(
        shape=[0, 5], begin=[0, 0], end=[4, 4], strides=[2, 2], dy=tf.ones((2, 2))
    ),
    "updates of other rows": lambda: _scatter("ResourceScatterMin", (2, 1)),
}  # fmt: skip


@pytest.mark.parametrize("name", [*ABORTS, *ACCEPTED])
def test_wrong_arguments_are_an_error(name: str) -> None:
    with tf.device("XPU:0"):
        with pytest.raises((tf.errors.InvalidArgumentError, tf.errors.UnimplementedError)):
            (ABORTS | ACCEPTED)[name]()
        np.testing.assert_array_equal(tf.constant([1.0]) + 1, [2.0])


@pytest.mark.parametrize("lengths", [[-1, -1, -1], [2**63 - 1] * 3, [1, 1, 1], [4, 4, -3]], ids=str)
def test_an_array_split_into_parts_that_are_not_its_own(lengths: list[int]) -> None:
    """The process ended where a length was none."""

    @tf.function(jit_compile=True)
    def split(x: tf.Tensor) -> Any:
        handle, flow = op.TensorArrayV3(size=3, dtype=x.dtype, identical_element_shapes=False)
        flow = op.TensorArraySplitV3(
            handle=handle, value=x, lengths=tf.constant(lengths, tf.int64), flow_in=flow
        )
        return op.TensorArrayReadV3(handle=handle, index=0, flow_in=flow, dtype=x.dtype)

    with tf.device("XPU:0"), pytest.raises(tf.errors.InvalidArgumentError, match="lengths must"):
        split(tf.ones((5, 3)))


def test_sizes_of_parts_may_be_of_any_type() -> None:
    """TensorFlow's shape function of SplitV ends the process for int8: it is not shown the sizes."""
    with tf.device("XPU:0"), pytest.raises(tf.errors.InvalidArgumentError, match="int32 or int64"):
        op.SplitV(
            value=tf.ones((2, 6)),
            size_splits=tf.constant([1, 3, 2], tf.int8),
            axis=1,
            num_split=3,
        )


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("dtype", [tf.complex64, tf.complex128])
def test_eigenvalues_of_complex_matrices(dtype: tf.DType, jit_compile: bool) -> None:
    """They were real numbers that were read as complex ones, past their end."""
    numbers = np.random.default_rng(0)
    a = numbers.normal(size=(5, 4, 4)) + 1j * numbers.normal(size=(5, 4, 4))
    a = (a + a.conj().swapaxes(-1, -2)).astype(dtype.as_numpy_dtype)
    with tf.device("XPU:0"):
        values, vectors = tf.function(tf.linalg.eigh, jit_compile=jit_compile)(tf.constant(a))
    assert values.dtype == vectors.dtype == dtype
    tolerance = 50 * np.finfo(a.dtype).eps * np.abs(a).max()
    np.testing.assert_allclose(values, np.linalg.eigvalsh(a), rtol=0, atol=tolerance)
    v = vectors.numpy()
    np.testing.assert_allclose(a @ v, v * values.numpy()[:, None, :], rtol=0, atol=tolerance)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_the_gradient_of_a_resized_image_of_doubles(jit_compile: bool) -> None:
    """It was floats that were read as doubles."""
    image = np.random.default_rng(0).normal(size=(1, 5, 6, 3))

    def gradient(x: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = op.ResizeBilinear(images=x, size=[7, 4])
            y = tf.reduce_sum(y * y)
        return tape.gradient(y, x)

    results = []
    for device in ("CPU:0", "XPU:0"):
        with tf.device(device):
            compiled = jit_compile and device == "XPU:0"
            results.append(tf.function(gradient, jit_compile=compiled)(tf.constant(image)))
    assert results[1].dtype == tf.float64
    np.testing.assert_allclose(results[1], results[0], rtol=0, atol=64 * 2.0**-23)


def _input_gradient(sizes: list[int], kernel: tuple[int, ...], gradient: tuple[int, ...]) -> Any:
    return op.Conv2DBackpropInput(
        input_sizes=sizes,
        filter=tf.ones(kernel),
        out_backprop=tf.ones(gradient),
        strides=[1] * 4,
        padding="SAME",
    )


# Results without elements, and their shapes: TensorFlow's CPU refuses some if it does without oneDNN. Convolutions
# ended the process, the gradients of a pool and of a slice had elements.
EMPTY: dict[str, tuple[tuple[int, ...], Callable[[], Any]]] = {
    "depthwise convolution": ((2, 5, 6, 0), lambda: op.DepthwiseConv2dNative(
        input=tf.ones((2, 5, 6, 0)), filter=tf.ones((3, 3, 0, 2)), strides=[1] * 4, padding="SAME"
    )),
    "gradient of a convolution": (
        (2, 5, 6, 0), lambda: _input_gradient([2, 5, 6, 0], (3, 3, 0, 4), (2, 5, 6, 4))
    ),
    "gradient of a filter": ((3, 3, 0, 4), lambda: op.Conv2DBackpropFilter(
        filter_sizes=[3, 3, 0, 4], input=tf.ones((2, 5, 6, 0)), out_backprop=tf.ones((2, 5, 6, 4)),
        strides=[1] * 4, padding="SAME",
    )),
    "gradient of a depthwise convolution": (
        (2, 5, 6, 0), lambda: op.DepthwiseConv2dNativeBackpropInput(
            input_sizes=[2, 5, 6, 0], filter=tf.ones((3, 3, 0, 2)),
            out_backprop=tf.ones((2, 5, 6, 0)), strides=[1] * 4, padding="SAME",
        )
    ),
    "gradient of an average pool": ((2, 0, 7, 3), lambda: op.AvgPoolGrad(
        orig_input_shape=[2, 0, 7, 3], grad=tf.ones((2, 0, 4, 3)), ksize=[1, 3, 3, 1],
        strides=[1, 2, 2, 1], padding="SAME",
    )),
    "gradient of a strided slice": ((3, 0), lambda: op.StridedSliceGrad(
        shape=[3, 0], begin=[0, 1], end=[3, 4], strides=[1, 2], dy=tf.ones((3, 0))
    )),
}  # fmt: skip


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("name", EMPTY)
def test_results_without_elements(name: str, jit_compile: bool) -> None:
    shape, compute = EMPTY[name]
    with tf.device("XPU:0"):
        result = (tf.function(compute, jit_compile=True) if jit_compile else compute)()
    assert tuple(result.shape) == shape


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize(
    "shape", [(0, 0), (0, 2), (2, 0), (3, 0, 2), (3, 2, 0), (2, 0, 3, 2)], ids=str
)
def test_singular_values_of_matrices_without_elements(
    shape: tuple[int, ...], jit_compile: bool
) -> None:
    """They were an error, and so were the rank, the norm and the pseudo-inverse of such matrices."""

    def compute() -> list[tf.Tensor]:
        a = tf.ones(shape)
        full, thin = (tf.linalg.svd(a, full_matrices=full) for full in (True, False))
        values = tf.linalg.svd(a, compute_uv=False)
        return [*full, *thin, values, tf.linalg.matrix_rank(a), tf.linalg.pinv(a)]

    with tf.device("XPU:0"):
        results = (tf.function(compute, jit_compile=True) if jit_compile else compute)()
    with tf.device("CPU:0"):
        expected = compute()
    for result, other in zip(results, expected, strict=True):
        np.testing.assert_array_equal(result, other, strict=True)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_a_filter_without_channels_is_an_error(jit_compile: bool) -> None:
    """It ended the process."""

    def gradient() -> Any:
        return _input_gradient([2, 5, 6, 3], (3, 3, 0, 4), (2, 5, 6, 4))

    with (
        tf.device("XPU:0"),
        pytest.raises(tf.errors.InvalidArgumentError, match="no input channels"),
    ):
        (tf.function(gradient, jit_compile=True) if jit_compile else gradient)()


def test_normalization_over_a_radius_beyond_all_channels() -> None:
    """Its window has 2^32 - 1 elements: a loop over them did not end."""
    x = np.random.default_rng(0).normal(size=(2, 5, 6, 3)).astype(np.float32)
    with tf.device("XPU:0"):
        widest = tf.nn.local_response_normalization(tf.constant(x), _LARGE)
        channels = tf.nn.local_response_normalization(tf.constant(x), 2)
    np.testing.assert_allclose(widest, channels, rtol=2.0**-20)
