"""Ops that TensorFlow's Python functions do not (or no longer) make, by name: what old graphs and gradients hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import tensorflow as tf

from .cases import COMPLEX, UNSIGNED, WIDE, Table, distinct, given, positive, truth, whole, x

TABLE: Final = Table()
add = TABLE.add
op: Final = tf.raw_ops

_INTEGERS: Final = ("int32", "int64")
_IMAGE: Final = x(2, 6, 8, 3)
_KERNEL: Final = x(3, 3, 3, 4)


# Arithmetic.
add(
    "Add",
    lambda a, b: op.Add(x=a, y=b),
    x(3, 4),
    x(4),
    dtypes=("float32", "int64", "int8", "complex64"),
)
add(
    "Div", lambda a, b: op.Div(x=a, y=b), x(3, 4), positive(4), dtypes=("float32", "int32", "uint8")
)
add("Mod", lambda a, b: op.Mod(x=a, y=b), x(3, 4), positive(4), dtypes=("float32", *_INTEGERS))
add("Inv", lambda a: op.Inv(x=a), positive(3, 4), dtypes=(*WIDE, "bfloat16"))
add("ReciprocalGrad", lambda a, b: op.ReciprocalGrad(y=a, dy=b), x(3, 4), x(3, 4), dtypes=WIDE)
add("InvGrad", lambda a, b: op.InvGrad(y=a, dy=b), x(3, 4), x(3, 4), jit=False)
add(
    "SoftplusGrad",
    lambda a, b: op.SoftplusGrad(gradients=a, features=b),
    x(9),
    x(9, low=-30, high=30),
)
add("ComplexAbs", lambda a: op.ComplexAbs(x=a, Tout=a.dtype.real_dtype), x(5), dtypes=COMPLEX)
add(
    "PopulationCount",
    lambda a: op.PopulationCount(x=a),
    x(9),
    dtypes=(*UNSIGNED, *_INTEGERS, "int8"),
)
add(
    "OnesLike",
    lambda a: op.OnesLike(x=a),
    x(2, 3),
    dtypes=("float32", "int64", "bool", "complex64"),
)
add("LinSpace", lambda: op.LinSpace(start=1.0, stop=2.0, num=7))
add("IgammaGradA", lambda a, b: op.IgammaGradA(a=a, x=b), positive(8), positive(8), tolerance=4096)
add(
    "RandomGammaGrad",
    lambda a, b: op.RandomGammaGrad(alpha=a, sample=b),
    positive(8),
    positive(8),
    tolerance=4096,
)
add("Snapshot", lambda a: op.Snapshot(input=a), x(3))
add("PreventGradient", lambda a: op.PreventGradient(input=a), x(3))
add("EnsureShape", lambda a: op.EnsureShape(input=a, shape=[None, 3]), x(2, 3))

# Products.
add(
    "BatchMatMul",
    lambda a, b: op.BatchMatMul(x=a, y=b, adj_y=True),
    x(2, 3, 4),
    x(2, 5, 4),
    dtypes=(*WIDE, "complex64"),
)
add("SparseMatMul", lambda a, b: op.SparseMatMul(a=a, b=b), x(3, 4), x(4, 5))
add(
    "SparseMatMul_transposed",
    lambda a, b: op.SparseMatMul(a=a, b=b, transpose_a=True, transpose_b=True),
    x(4, 3),
    x(5, 4),
)
add("BiasAddV1", lambda a, b: op.BiasAddV1(value=a, bias=b), x(2, 3, 4), x(4))
add(
    "ConjugateTranspose",
    lambda a: op.ConjugateTranspose(x=a, perm=[1, 0]),
    x(3, 4),
    dtypes=COMPLEX,
)
add(
    "Conv",
    lambda a, k: op.Conv(input=a, filter=k, strides=[1, 2, 1, 1], padding="SAME"),
    _IMAGE,
    _KERNEL,
    tolerance=128,
)
add(
    "ConjugateTranspose_real",
    lambda a: op.ConjugateTranspose(x=a, perm=[2, 0, 1]),
    x(3, 4, 2),
    dtypes=("float32", "int32", "bool"),
    jit=False,
)

# Data movement.
add(
    "Concat",
    lambda a, b: op.Concat(concat_dim=1, values=[a, b]),
    x(2, 3),
    x(2, 4),
    dtypes=("float32", "int64", "bool"),
)
add("Gather", lambda a, i: op.Gather(params=a, indices=i), x(5, 3), whole(2, 2, high=5))
add(
    "Reverse",
    lambda a: op.Reverse(tensor=a, dims=[True, False, True]),
    x(2, 3, 4),
    dtypes=("float32", "bool", "int8"),
)
add(
    "BatchToSpace",
    lambda a: op.BatchToSpace(input=a, crops=[[0, 1], [1, 0]], block_size=2),
    x(8, 3, 2, 5),
)
add(
    "SpaceToBatch",
    lambda a: op.SpaceToBatch(input=a, paddings=[[0, 1], [1, 0]], block_size=2),
    x(2, 3, 5, 2),
)
add("DataFormatDimMap", lambda i: op.DataFormatDimMap(x=i), whole(6, low=-4, high=4))
add("DataFormatVecPermute", lambda i: op.DataFormatVecPermute(x=i), whole(4, high=9))
add(
    "DataFormatVecPermute_pairs",
    lambda i: op.DataFormatVecPermute(x=i, src_format="NHWC", dst_format="NCHW"),
    whole(4, 2, high=9),
)
add(
    "ParallelDynamicStitch",
    lambda a, b: op.ParallelDynamicStitch(indices=[[0, 3], [2, 1, 4]], data=[a, b]),
    x(2, 3),
    x(3, 3),
)
add(
    "DynamicStitch_again",
    lambda a, b: op.DynamicStitch(indices=[[0, 1], [1, 2]], data=[a, b]),
    x(2, 3),
    x(2, 3),
)
add(
    "TensorStridedSliceUpdate",
    lambda a, v: op.TensorStridedSliceUpdate(
        input=a, begin=[1, 3], end=[3, 1], strides=[1, -1], value=v
    ),
    x(4, 4),
    x(2, 2),
)
add(
    "StridedSliceGrad_masks",
    lambda a: op.StridedSliceGrad(
        shape=[3, 4, 2],
        begin=[2, 0, 1],
        end=[0, 0, 2],
        strides=[-1, 1, 1],
        dy=a,
        begin_mask=2,
        end_mask=2,
        shrink_axis_mask=4,
    ),
    x(2, 4),
)
add("MatrixDiag", lambda a: op.MatrixDiag(diagonal=a), x(2, 3))
add("MatrixDiagPart", lambda a: op.MatrixDiagPart(input=a), x(2, 3, 4))
add("MatrixSetDiag", lambda a, d: op.MatrixSetDiag(input=a, diagonal=d), x(2, 3, 4), x(2, 3))
add(
    "MatrixDiagV2",
    lambda a, p: op.MatrixDiagV2(diagonal=a, k=[-1, 1], num_rows=-1, num_cols=-1, padding_value=p),
    x(2, 3, 3),
    x(),
)
for _align in ("LEFT_RIGHT", "RIGHT_LEFT", "LEFT_LEFT", "RIGHT_RIGHT"):
    add(
        f"MatrixDiagV3_{_align}",
        lambda a, p, align=_align: op.MatrixDiagV3(
            diagonal=a, k=[-2, 1], num_rows=4, num_cols=3, padding_value=p, align=align
        ),
        x(2, 4, 3),
        x(),
    )
    add(
        f"MatrixDiagPartV3_{_align}",
        lambda a, p, align=_align: op.MatrixDiagPartV3(
            input=a, k=[-2, 1], padding_value=p, align=align
        ),
        x(2, 4, 3),
        x(),
    )
    add(
        f"MatrixSetDiagV3_{_align}",
        lambda a, d, align=_align: op.MatrixSetDiagV3(input=a, diagonal=d, k=[-2, 1], align=align),
        x(2, 4, 3),
        x(2, 4, 3),
    )
add(
    "MatrixDiagPartV2",
    lambda a, p: op.MatrixDiagPartV2(input=a, k=[-1, 2], padding_value=p),
    x(2, 3, 4),
    x(),
)
add(
    "MatrixSetDiagV2",
    lambda a, d: op.MatrixSetDiagV2(input=a, diagonal=d, k=1),
    x(2, 3, 4),
    x(2, 3),
)
add("Bincount", lambda i, w: op.Bincount(arr=i, size=6, weights=w), whole(12, high=8), x(12))
add(
    "Bincount_counts",
    lambda i: op.Bincount(arr=i, size=6, weights=tf.zeros([0])),
    whole(12, high=8),
)
add(
    "DenseBincount_rows",
    lambda i, w: op.DenseBincount(input=i, size=6, weights=w),
    whole(3, 9, high=8),
    x(3, 9),
)
add(
    "DenseBincount_seen",
    lambda i: op.DenseBincount(input=i, size=6, weights=tf.zeros([0]), binary_output=True),
    whole(3, 9, high=8),
)

# Fourier transforms.
add("IFFT2D", lambda a: op.IFFT2D(input=a), x(2, 4, 6), dtypes=COMPLEX, tolerance=64)
add("IFFT3D", lambda a: op.IFFT3D(input=a), x(3, 4, 6), dtypes=COMPLEX, tolerance=64)
for _rank in (1, 2, 3):
    _name = {1: "", 2: "2D", 3: "3D"}[_rank]
    add(
        f"RFFT{_name}_length",
        lambda a, r=_rank, n=_name: getattr(op, f"RFFT{n}")(input=a, fft_length=[4, 6, 8][-r:]),
        x(4, 7, 9),
        tolerance=64,
    )
    add(
        f"IRFFT{_name}_length",
        lambda a, r=_rank, n=_name: getattr(op, f"IRFFT{n}")(input=a, fft_length=[4, 6, 7][-r:]),
        x(4, 6, 9),
        dtypes=("complex64",),
        tolerance=64,
    )

# Pooling and normalisation.
_POOL: Final = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "VALID"}
_POOL_V2: Final = {"ksize": [1, 3, 2, 1], "strides": [1, 1, 2, 1], "padding": "SAME"}


def _pooled(a: Any, **how: Any) -> Any:
    return op.MaxPool(input=a, **how)


add("MaxPoolV2", lambda a: op.MaxPoolV2(input=a, **_POOL_V2), _IMAGE)
add(
    "MaxPoolGrad",
    lambda a, g: op.MaxPoolGrad(orig_input=a, orig_output=_pooled(a, **_POOL), grad=g, **_POOL),
    distinct(2, 6, 8, 3),
    x(2, 3, 4, 3),
)
add(
    "MaxPoolGradV2",
    lambda a, g: op.MaxPoolGradV2(
        orig_input=a, orig_output=_pooled(a, **_POOL_V2), grad=g, **_POOL_V2
    ),
    distinct(2, 6, 8, 3),
    x(2, 6, 4, 3),
)
add(
    "MaxPoolGradGrad",
    lambda a, g: op.MaxPoolGradGrad(orig_input=a, orig_output=_pooled(a, **_POOL), grad=g, **_POOL),
    distinct(2, 6, 8, 3),
    _IMAGE,
)
add(
    "MaxPoolGradGradV2",
    lambda a, g: op.MaxPoolGradGradV2(
        orig_input=a, orig_output=_pooled(a, **_POOL), grad=g, **_POOL
    ),
    distinct(2, 6, 8, 3),
    _IMAGE,
)
add(
    "MaxPool3DGradGrad",
    lambda a, g: op.MaxPool3DGradGrad(
        orig_input=a,
        orig_output=op.MaxPool3D(
            input=a, ksize=[1, 2, 2, 2, 1], strides=[1, 2, 2, 2, 1], padding="VALID"
        ),
        grad=g,
        ksize=[1, 2, 2, 2, 1],
        strides=[1, 2, 2, 2, 1],
        padding="VALID",
    ),
    distinct(1, 4, 4, 6, 2),
    x(1, 4, 4, 6, 2),
)


def _all_but_reserved(results: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
    """y, and the batch's mean and variance; what is kept for the gradient is each implementation's own."""
    return results[:3]


for _version in ("", "V2", "V3"):
    for _training in (True, False):
        add(
            f"FusedBatchNorm{_version}_{'training' if _training else 'inference'}",
            lambda a, s, o, m, v, n=_version, t=_training: getattr(op, f"FusedBatchNorm{n}")(
                x=a, scale=s, offset=o, mean=[] if t else m, variance=[] if t else v, is_training=t
            )[:3],
            _IMAGE,
            x(3),
            x(3),
            x(3),
            positive(3),
            tolerance=128,
            results=_all_but_reserved,
        )
add(
    "FusedBatchNormGrad_inference",
    lambda g, a, s, m, v: op.FusedBatchNormGradV2(
        y_backprop=g, x=a, scale=s, reserve_space_1=m, reserve_space_2=v, is_training=False
    )[:3],
    _IMAGE,
    _IMAGE,
    x(3),
    x(3),
    positive(3),
    tolerance=256,
)
add(
    "ResizeBilinearGrad",
    lambda g, a: op.ResizeBilinearGrad(grads=g, original_image=a, align_corners=True),
    x(2, 5, 7, 3),
    x(2, 9, 13, 3),
    tolerance=64,
)
add(
    "ResizeBilinearGrad_half_pixel",
    lambda g, a: op.ResizeBilinearGrad(grads=g, original_image=a, half_pixel_centers=True),
    x(2, 12, 8, 3),
    x(2, 6, 4, 3),
    tolerance=64,
)

# Quantization.
add(
    "FakeQuantArgsGradient",
    lambda g, a: op.FakeQuantWithMinMaxArgsGradient(gradients=g, inputs=a, min=-1, max=1.5),
    x(9),
    x(9),
)
add(
    "FakeQuantVarsGradient",
    lambda g, a: op.FakeQuantWithMinMaxVarsGradient(gradients=g, inputs=a, min=-1.0, max=1.5),
    x(9),
    x(9),
)
add(
    "FakeQuantPerChannel",
    lambda a, lo, hi: op.FakeQuantWithMinMaxVarsPerChannel(inputs=a, min=lo, max=hi),
    x(5, 3),
    given([-1, -2, -0.5], "float32"),
    given([1, 0.5, 2], "float32"),
)
add(
    "FakeQuantPerChannelGradient",
    lambda g, a, lo, hi: op.FakeQuantWithMinMaxVarsPerChannelGradient(
        gradients=g, inputs=a, min=lo, max=hi
    ),
    x(5, 3),
    x(5, 3),
    given([-1, -2, -0.5], "float32"),
    given([1, 0.5, 2], "float32"),
)
for _range_given in (True, False):
    for _signed in (True, False):
        add(
            f"QuantizeAndDequantizeV2_{'range' if _range_given else 'found'}_{'signed' if _signed else 'unsigned'}",
            lambda a, r=_range_given, s=_signed: op.QuantizeAndDequantizeV2(
                input=a, input_min=-1.5, input_max=1.0, range_given=r, signed_input=s
            ),
            x(4, 5),
        )
add(
    "QuantizeAndDequantizeV3",
    lambda a: op.QuantizeAndDequantizeV3(input=a, input_min=-1.0, input_max=1.0, num_bits=6),
    x(4, 5),
)
add(
    "QuantizeAndDequantizeV4",
    lambda a: op.QuantizeAndDequantizeV4(input=a, input_min=-1.0, input_max=1.0, narrow_range=True),
    x(4, 5),
)
for _mode in ("MIN_COMBINED", "MIN_FIRST", "SCALED"):
    add(
        f"Dequantize_{_mode}",
        lambda a, m=_mode: op.Dequantize(
            input=tf.bitcast(a, tf.qint8), min_range=-2.0, max_range=3.0, mode=m
        ),
        whole(9, low=-128, high=128, dtype="int8"),
        jit=False,
    )

# Sorted segments with a number of them.
for _reduction in ("Sum", "Prod", "Min", "Max"):
    add(
        f"Segment{_reduction}V2",
        lambda a, i, r=_reduction: getattr(op, f"Segment{r}V2")(
            data=a, segment_ids=tf.sort(i), num_segments=5
        ),
        x(7, 2),
        whole(7, high=5),
        like_xla=True,
        dtypes=("float32", "int32"),
    )

# Random numbers by the ops of before the choice of an algorithm: each device has its own.
_SEED: Final = given([3, 9], "int32")
for _name, _arguments in {
    "RandomUniform": {},
    "RandomNormal": {},
    "TruncatedNormal": {},
    "RandomUniformInt": {"minval": -3, "maxval": 40},
    "RandomUniformFullInt": {"dtype": tf.int64},
}.items():
    add(
        f"Stateless{_name}",
        lambda s, n=_name, a=_arguments: getattr(op, f"Stateless{n}")(shape=[40], seed=s, **a),
        _SEED,
        compare=False,
    )
add(
    "StatelessParameterizedTruncatedNormal",
    lambda s: op.StatelessParameterizedTruncatedNormal(
        shape=[40], seed=s, means=1.0, stddevs=2.0, minvals=-1.0, maxvals=3.0
    ),
    _SEED,
    compare=False,
)
add(
    "StatelessRandomGetKeyCounter",
    lambda s: tf.nest.flatten(op.StatelessRandomGetKeyCounter(seed=s)),
    _SEED,
    compare=False,
)
add(
    "ParameterizedTruncatedNormal",
    lambda m: op.ParameterizedTruncatedNormal(
        shape=[20], means=m, stdevs=1.0, minvals=-1.0, maxvals=1.0
    ),
    x(),
    compare=False,
)
add("Select_scalar", lambda c, a, b: op.Select(condition=c, x=a, y=b), truth(3), x(3, 2), x(3, 2))
