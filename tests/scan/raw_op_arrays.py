"""Rows of raw ops of arrays: products, indices, shapes, matrices, quantization."""

from __future__ import annotations

from typing import Final

import numpy as np
import tensorflow as tf

from tests.scan.arguments import complexes, definite, integers, normal, positive, unit
from tests.scan.raw_op_row import Row, first_of, ints, real, row, scalar

_X: Final = normal(5, 3)

ROWS: Final[dict[str, list[Row]]] = {
    "AddN": [row([normal(3, 37), normal(3, 37, seed=1), normal(3, 37, seed=2)])],
    "ApproxTopK": [
        row(normal(3, 37), k=4, aggregate_to_topk=True, recall_target=1.0),
        row(normal(3, 37), k=4, is_max_k=False, recall_target=1.0),
    ],
    "ArgMax": [row(normal(4, 37), scalar(1)), row(normal(4, 37), scalar(0))],
    "ArgMin": [row(normal(4, 37), scalar(1)), row(normal(4, 37), scalar(0))],
    **{
        name: [
            row(normal(2, 3, 5), normal(2, 5, 4)),
            row(normal(2, 5, 3), normal(2, 4, 5), adj_x=True, adj_y=True),
        ]
        for name in ("BatchMatMul", "BatchMatMulV2")
    },
    "BatchMatMulV3": [row(normal(2, 3, 5), normal(2, 5, 4), Tout=tf.float32)],
    "Betainc": [row(positive(3, 37), positive(3, 37, seed=1), unit(3, 37))],
    "Bincount": [
        row(integers(23, most=6), scalar(6), normal(23)),
        row(integers(23, most=6), scalar(6), normal(0)),
    ],
    "Bitcast": [
        row(normal(3, 4), type=tf.int32),
        row(normal(3, 4).astype(np.float64), type=tf.int32),
    ],
    "BroadcastArgs": [row(ints(3, 1), ints(4))],
    "BroadcastGradientArgs": [row(ints(3, 1), ints(1, 4))],
    "BroadcastTo": [row(normal(3, 1), ints(2, 3, 4))],
    "Bucketize": [row(normal(3, 37), boundaries=[-1.0, 0.0, 0.5])],
    "CheckNumerics": [row(normal(3, 4), message="here")],
    "Cholesky": [row(definite(2, 5, 5)), row(normal(2, 5, 5))],
    "ClipByValue": [
        row(normal(3, 37), real(-0.5), real(0.5)),
        row(normal(3, 37), normal(3, 37) - 0.5, normal(3, 37) + positive(3, 37)),
    ],
    "Concat": [row(scalar(1), [normal(3, 4), normal(3, 2), normal(3, 5)])],
    "ConcatOffset": [row(scalar(1), [ints(3, 4), ints(3, 2), ints(3, 5)])],
    "ConcatV2": [
        row([normal(3, 4), normal(3, 2), normal(3, 5)], scalar(1)),
        row([normal(3, 4), normal(2, 4)], scalar(0)),
    ],
    "ConjugateTranspose": [row(complexes(2, 3, 4), ints(1, 2, 0))],
    "Cross": [row(normal(5, 3), normal(5, 3, seed=1))],
    **{
        name: [
            row(unit(4, 37) + 0.5, scalar(1)),
            row(unit(4, 37) + 0.5, scalar(0), exclusive=True, reverse=True),
        ]
        for name in ("Cumprod", "Cumsum", "CumulativeLogsumexp")
    },
    "DataFormatDimMap": [
        row(ints(0, 1, 2, 3, -1)),
        row(ints(0, 1, 2, 3, 4), src_format="NDHWC", dst_format="NCDHW"),
    ],
    "DataFormatVecPermute": [
        row(ints(1, 2, 3, 4)),
        row(ints([1, 2], [3, 4])),
        row(ints([1, 2], [3, 4], [5, 6], [7, 8]), src_format="NCHW", dst_format="NHWC"),
    ],
    "DenseBincount": [
        row(integers(23, most=6), scalar(6), normal(23)),
        row(integers(3, 23, most=6), scalar(6), normal(0)),
        row(integers(3, 23, most=6), scalar(6), normal(0), binary_output=True),
    ],
    "Diag": [row(normal(2, 3))],
    "DiagPart": [row(normal(2, 3, 2, 3))],
    "DynamicPartition": [
        row(normal(6, 3), integers(6, most=3), num_partitions=3),
        row(normal(2, 3), integers(2, 3, most=3), num_partitions=3),
    ],
    **{
        name: [
            row([ints(0, 2), ints(3, 1, 2)], [normal(2, 3), normal(3, 3)]),
            row([scalar(0), ints([2, 1])], [normal(3), normal(1, 2, 3)]),
        ]
        for name in ("DynamicStitch", "ParallelDynamicStitch")
    },
    "Einsum": [
        row([normal(2, 3, 4), normal(2, 4, 5)], equation="bij,bjk->bik"),
        row([normal(3, 3, 4)], equation="iij->ji"),
        row([normal(2, 3, 4), normal(4, 2)], equation="b...j,jb->..."),
    ],
    "Empty": [row(ints(3, 4), dtype=tf.float32, init=True)],
    "EnsureShape": [row(normal(3, 4), shape=[3, 4]), row(normal(3, 4), shape=[None, 4])],
    "ExpandDims": [row(normal(3, 4), scalar(1))],
    "FakeQuantWithMinMaxVars": [row(normal(3, 37) * 3, real(-2.5), real(3.1))],
    "FakeQuantWithMinMaxVarsGradient": [
        row(normal(3, 37), normal(3, 37) * 3, real(-2.5), real(3.1))
    ],
    "FakeQuantWithMinMaxVarsPerChannel": [row(normal(5, 3) * 3, -positive(3), positive(3, seed=1))],
    "FakeQuantWithMinMaxVarsPerChannelGradient": [
        row(normal(5, 3), normal(5, 3) * 3, -positive(3), positive(3, seed=1))
    ],
    "Fill": [row(ints(3, 4), real(2.5))],
    "Gather": [row(_X, integers(2, 4, most=5))],
    "GatherNd": [
        row(normal(3, 4, 5), integers(6, 2, most=3)),
        row(normal(3, 4), ints([], []).reshape(2, 0)),
    ],
    "GatherV2": [
        row(_X, integers(2, 4, most=5), scalar(0)),
        row(normal(2, 5, 3), integers(4, most=3), scalar(2)),
        row(normal(2, 5, 3), integers(2, 4, most=5), scalar(1), batch_dims=1),
    ],
    "InTopKV2": [row(normal(6, 5), integers(6, most=5), scalar(2))],
    "InvertPermutation": [row(ints(3, 1, 0, 2))],
    "ListDiff": [row(ints(3, 1, 4, 1, 5, 9, 2), ints(1, 9))],
    **{
        name: [row(np.sort(positive(3, 9)), positive(3, 4))]
        for name in ("LowerBound", "UpperBound")
    },
    "MatMul": [
        row(normal(3, 5), normal(5, 4)),
        row(normal(5, 3), normal(4, 5), transpose_a=True, transpose_b=True),
        row(normal(1, 67), normal(67, 35)),
    ],
    "MatrixBandPart": [
        row(normal(2, 4, 5), scalar(1), scalar(2)),
        row(normal(2, 4, 5), scalar(-1), scalar(0)),
    ],
    "MatrixDiag": [row(normal(2, 3))],
    "MatrixDiagPart": [row(normal(2, 3, 4))],
    "MatrixDiagPartV2": [row(normal(2, 3, 4), ints(-1, 1), real(7.0))],
    "MatrixDiagPartV3": [
        row(normal(2, 3, 4), ints(-1, 1), real(7.0)),
        row(normal(2, 3, 4), scalar(1), real(7.0)),
    ],
    "MatrixDiagV2": [row(normal(2, 3), scalar(1), scalar(-1), scalar(-1), real(7.0))],
    "MatrixDiagV3": [
        row(normal(2, 3), scalar(1), scalar(-1), scalar(-1), real(7.0)),
        row(normal(2, 2, 3), ints(-1, 0), scalar(4), scalar(3), real(7.0)),
    ],
    "MatrixInverse": [row(definite(2, 5, 5)), row(np.ones((3, 3), np.float32))],
    "MatrixSetDiag": [row(normal(2, 3, 4), normal(2, 3))],
    "MatrixSetDiagV2": [row(normal(2, 3, 4), normal(2, 3), scalar(1))],
    "MatrixSetDiagV3": [
        row(normal(2, 3, 4), normal(2, 3), scalar(1)),
        row(normal(2, 3, 4), normal(2, 3, 3), ints(-1, 1)),
    ],
    "MatrixSolve": [row(definite(2, 5, 5), normal(2, 5, 3))],
    "MatrixTriangularSolve": [
        row(definite(2, 5, 5), normal(2, 5, 3)),
        row(definite(2, 5, 5), normal(2, 5, 3), lower=False, adjoint=True),
    ],
    "MirrorPad": [
        row(normal(3, 4), ints([1, 2], [0, 3]), mode="REFLECT"),
        row(normal(3, 4), ints([1, 3], [4, 2]), mode="SYMMETRIC"),
    ],
    "MirrorPadGrad": [
        row(normal(6, 7), ints([1, 2], [0, 3]), mode="REFLECT"),
        row(normal(6, 7), ints([1, 2], [3, 0]), mode="SYMMETRIC"),
    ],
    "OneHot": [
        row(integers(3, 4, most=5), scalar(5), real(2.5), real(-0.5)),
        row(integers(3, 4, most=5), scalar(5), real(1.0), real(0.0), axis=0),
    ],
    "Pack": [row([normal(3, 4), normal(3, 4, seed=1)], axis=1)],
    "Pad": [row(normal(3, 4), ints([1, 2], [0, 3]))],
    "PadV2": [row(normal(3, 4), ints([1, 2], [0, 3]), real(7.5))],
    "PlaceholderWithDefault": [row(normal(3, 4), shape=[3, 4])],
    "Polygamma": [row(integers(3, 37, most=4).astype(np.float32), positive(3, 37))],
    "Zeta": [row(positive(3, 37) + 1, positive(3, 37, seed=1))],
    "Qr": [row(normal(2, 5, 3)), row(normal(2, 5, 3), full_matrices=True)],
    "QuantizeAndDequantizeV2": [
        row(normal(3, 37), real(-1.5), real(2.0), range_given=True),
        row(normal(3, 37), -positive(3), positive(3), range_given=True, axis=0),
        row(normal(3, 37), real(0.0), real(0.0)),
    ],
    "QuantizeAndDequantizeV3": [row(normal(3, 37), real(-1.5), real(2.0), scalar(8))],
    "QuantizeAndDequantizeV4": [
        row(normal(3, 37), real(-1.5), real(2.0), range_given=True),
        row(normal(3, 37), real(0.0), real(0.0), round_mode="HALF_UP"),
    ],
    "Range": [row(scalar(1), scalar(9), scalar(3)), row(real(1.0), real(-2.0), real(-0.7))],
    "Reshape": [row(normal(3, 4), ints(2, -1)), row(normal(3, 4), ints(4, 3))],
    "Reverse": [row(normal(3, 4), np.array([True, False]))],
    "ReverseSequence": [row(normal(3, 5, 2), ints(2, 5, 0), seq_dim=1)],
    "ReverseV2": [row(normal(3, 4), ints(1)), row(normal(3, 4), ints(0, -1))],
    "Roll": [row(normal(3, 4), ints(1, -6), ints(0, 1)), row(normal(3, 4), scalar(2), scalar(1))],
    "ScatterNd": [
        row(ints([0], [3], [3]), normal(3, 3), ints(5, 3)),
        row(ints([0, 1], [3, 2]), normal(2), ints(5, 3)),
    ],
    **{
        f"UnsortedSegment{how}": [
            row(normal(6, 3), ints(0, 0, 1, 3, 3, 3), scalar(5)),
            row(normal(2, 3, 4), ints([0, 0, 1], [1, 2, 2]), scalar(3)),
        ]
        for how in ("Max", "Min", "Prod", "Sum")
    },
    **{
        f"Segment{how}V2": [row(normal(6, 3), ints(0, 0, 1, 3, 3, 3), scalar(5))]
        for how in ("Max", "Min", "Prod", "Sum")
    },
    "SelfAdjointEigV2": [first_of(1, definite(2, 5, 5), compute_v=False)],
    "Slice": [
        row(normal(3, 5), ints(1, 2), ints(2, -1)),
        row(normal(3, 5), ints(0, 1), ints(1, 3)),
    ],
    "SoftmaxCrossEntropyWithLogits": [row(normal(6, 5), unit(6, 5))],
    "SparseSoftmaxCrossEntropyWithLogits": [row(normal(6, 5), integers(6, most=5))],
    "Softmax": [row(normal(6, 37))],
    "LogSoftmax": [row(normal(6, 37))],
    "L2Loss": [row(normal(6, 37))],
    "SparseMatMul": [
        row(normal(3, 5), normal(5, 4)),
        row(normal(5, 3), normal(4, 5), transpose_a=True, transpose_b=True),
    ],
    "SparseToDense": [
        row(ints([0, 1], [2, 3]), ints(3, 4), normal(2), real(7.0)),
        row(ints(0, 2), ints(4), real(2.0), real(7.0)),
    ],
    "Split": [row(scalar(1), normal(3, 6), num_split=3)],
    "SplitV": [row(normal(3, 6), ints(1, -1, 3), scalar(1), num_split=3)],
    "Squeeze": [
        row(normal(3, 1, 4, 1)),
        row(normal(3, 1, 4, 1), squeeze_dims=[1]),
        row(normal(3, 1, 4, 1), squeeze_dims=[-1]),
    ],
    "StridedSlice": [
        row(normal(4, 5), ints(1, 0), ints(3, 4), ints(1, 2)),
        row(normal(4, 5), ints(-1, 4), ints(-5, 0), ints(-2, -1)),
        row(
            normal(4, 5, 2),
            ints(1, 0, 1),
            ints(3, 0, 2),
            ints(1, 1, 1),
            ellipsis_mask=2,
            shrink_axis_mask=4,
        ),
    ],
    "StridedSliceGrad": [
        row(ints(4, 5), ints(1, 0), ints(3, 4), ints(1, 2), normal(2, 2)),
        row(ints(4, 5), ints(3, 4), ints(0, 0), ints(-2, -1), normal(2, 4)),
    ],
    "Svd": [first_of(1, normal(2, 4, 3), compute_uv=False)],
    **{
        f"TensorScatter{how}": [
            row(_X, ints([0], [3], [3]), normal(3, 3)),
            row(_X, ints([0, 1], [3, 2]), normal(2)),
        ]
        for how in ("Add", "Max", "Min", "Sub", "Update")
    },
    "TensorStridedSliceUpdate": [
        row(normal(4, 5), ints(1, 0), ints(3, 4), ints(1, 2), normal(2, 2))
    ],
    "Tile": [row(normal(3, 4), ints(2, 3))],
    "ToBool": [row(real(1.0)), row(normal(3))],
    "TopKV2": [row(normal(3, 37), scalar(5)), row(normal(70), scalar(70))],
    "Transpose": [row(normal(2, 3, 4), ints(1, 2, 0))],
    "TridiagonalMatMul": [
        row(normal(2, 1, 5), normal(2, 1, 5, seed=1), normal(2, 1, 5, seed=2), normal(2, 5, 3))
    ],
    "TridiagonalSolve": [row(normal(2, 3, 5) + 4, normal(2, 5, 3))],
    "Unique": [row(ints(3, 1, 4, 1, 5, 9, 3))],
    "UniqueV2": [
        row(ints([3, 1], [4, 1], [3, 1]), np.array([0], np.int64)),
        row(ints(3, 1, 4, 1), np.array([], np.int64)),
    ],
    "UniqueWithCounts": [row(ints(3, 1, 4, 1, 5, 9, 3))],
    "Unpack": [row(normal(3, 4), num=3), row(normal(3, 4), num=4, axis=1)],
    "Where": [row(np.maximum(normal(3, 7), 0))],
    "XlaConcatND": [
        row([normal(2, 3), normal(2, 3, seed=1)], num_concats=[2, 1]),
        row([normal(2, 3), normal(2, 3, seed=1)], num_concats=[1, 2], paddings=[0, 1]),
    ],
    "XlaSplitND": [
        row(normal(4, 3), N=2, num_splits=[2, 1]),
        row(normal(4, 3), N=2, num_splits=[1, 2], paddings=[0, 1]),
    ],
}
