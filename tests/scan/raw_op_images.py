"""Rows of raw ops of images, windows, convolutions, normalisations and Fourier transforms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import tensorflow as tf

from tests.scan.arguments import complexes, normal, positive, unit
from tests.scan.raw_op_row import Made, Row, first_of, ints, real, row, scalar

_R: Final = tf.raw_ops
_IMAGE: Final = normal(2, 6, 7, 3)
_VOLUME: Final = normal(1, 4, 5, 6, 2)
_WINDOWS: Final = {"ksize": [1, 2, 3, 1], "strides": [1, 2, 1, 1], "padding": "SAME"}
_CUBES: Final = {"ksize": [1, 2, 2, 3, 1], "strides": [1, 1, 2, 1, 1], "padding": "SAME"}
_STEPS: Final = {"strides": [1, 2, 2, 1], "padding": "SAME"}
_STEPS_3D: Final = {"strides": [1, 1, 2, 1, 1], "padding": "SAME"}


def _pooled(x: Any) -> Any:
    return _R.MaxPool(input=x, **_WINDOWS)


def _pooled_3d(x: Any) -> Any:
    return _R.MaxPool3D(input=x, **_CUBES)


def _grad_of_pool(pooled: Callable[..., Any], x: np.ndarray, of: Any, **attributes: Any) -> Row:
    return row(x, Made(pooled, (x,)), of, **attributes)


_BOXES: Final = np.sort(unit(9, 2, 2), axis=1).reshape(9, 4)
_NORM: Final = [positive(3, seed=n) for n in range(4)]
_NORM_GRAD: Final = [normal(2, 6, 7, 3, seed=1), _IMAGE, *_NORM[:3]]


ROWS: Final[dict[str, list[Row]]] = {
    "AdjustContrastv2": [row(_IMAGE, real(0.7))],
    "AdjustHue": [row(unit(2, 6, 7, 3), real(0.2))],
    "AdjustSaturation": [row(unit(2, 6, 7, 3), real(0.7))],
    "AvgPool": [row(_IMAGE, **_WINDOWS)],
    "AvgPool3D": [row(_VOLUME, **_CUBES)],
    "AvgPool3DGrad": [row(ints(1, 4, 5, 6, 2), normal(1, 4, 3, 6, 2), **_CUBES)],
    "AvgPoolGrad": [row(ints(2, 6, 7, 3), normal(2, 3, 7, 3), **_WINDOWS)],
    "BatchToSpace": [row(normal(8, 2, 3, 2), ints([0, 1], [1, 0]), block_size=2)],
    "BatchToSpaceND": [row(normal(8, 2, 3, 2), ints(2, 2), ints([0, 1], [1, 0]))],
    "BiasAdd": [row(_IMAGE, normal(3))],
    "BiasAddGrad": [row(_IMAGE)],
    "BiasAddV1": [row(_IMAGE, normal(3))],
    "Conv": [
        row(_IMAGE, normal(3, 2, 3, 4), **_STEPS),
        row(_VOLUME, normal(2, 3, 2, 2, 3), **_STEPS_3D),
    ],
    "Conv2D": [
        row(_IMAGE, normal(3, 2, 3, 4), **_STEPS),
        row(
            _IMAGE,
            normal(2, 3, 3, 4),
            strides=[1, 1, 1, 1],
            padding="VALID",
            dilations=[1, 2, 1, 1],
        ),
        row(
            normal(2, 6, 7, 4),
            normal(2, 3, 2, 6),
            strides=[1, 1, 1, 1],
            padding="EXPLICIT",
            explicit_paddings=[0, 0, 1, 0, 2, 1, 0, 0],
        ),
    ],
    "Conv2DBackpropFilter": [row(_IMAGE, ints(3, 2, 3, 4), normal(2, 3, 4, 4), **_STEPS)],
    "Conv2DBackpropInput": [
        row(ints(2, 6, 7, 3), normal(3, 2, 3, 4), normal(2, 3, 4, 4), **_STEPS)
    ],
    "Conv3D": [row(_VOLUME, normal(2, 3, 2, 2, 3), **_STEPS_3D)],
    "Conv3DBackpropFilterV2": [
        row(_VOLUME, ints(2, 3, 2, 2, 3), normal(1, 4, 3, 6, 3), **_STEPS_3D)
    ],
    "Conv3DBackpropInputV2": [
        row(ints(1, 4, 5, 6, 2), normal(2, 3, 2, 2, 3), normal(1, 4, 3, 6, 3), **_STEPS_3D)
    ],
    "DepthToSpace": [row(normal(2, 3, 2, 8), block_size=2)],
    "DepthwiseConv2dNative": [row(_IMAGE, normal(3, 2, 3, 2), **_STEPS)],
    "DepthwiseConv2dNativeBackpropFilter": [
        row(_IMAGE, ints(3, 2, 3, 2), normal(2, 3, 4, 6), **_STEPS)
    ],
    "DepthwiseConv2dNativeBackpropInput": [
        row(ints(2, 6, 7, 3), normal(3, 2, 3, 2), normal(2, 3, 4, 6), **_STEPS)
    ],
    "ExtractImagePatches": [
        row(_IMAGE, ksizes=[1, 2, 3, 1], strides=[1, 2, 1, 1], rates=[1, 1, 2, 1], padding="VALID")
    ],
    **{name: [row(complexes(3, 8)), row(complexes(2, 3, 7))] for name in ("FFT", "IFFT")},
    **{name: [row(complexes(3, 4, 6)), row(complexes(2, 3, 7))] for name in ("FFT2D", "IFFT2D")},
    **{name: [row(complexes(2, 3, 4, 6))] for name in ("FFT3D", "IFFT3D")},
    "IRFFT": [row(complexes(3, 5), ints(8)), row(complexes(3, 5), ints(9))],
    "IRFFT2D": [row(complexes(3, 4, 4), ints(4, 7))],
    "IRFFT3D": [row(complexes(2, 3, 4, 4), ints(3, 4, 6))],
    "RFFT": [row(normal(3, 9), ints(8)), row(normal(3, 9), ints(5))],
    "RFFT2D": [row(normal(3, 4, 6), ints(3, 5))],
    "RFFT3D": [row(normal(2, 3, 4, 6), ints(3, 4, 5))],
    "FusedBatchNorm": [row(_IMAGE, *_NORM), row(_IMAGE, *_NORM, is_training=False)],
    "FusedBatchNormV2": [row(_IMAGE, *_NORM), row(_IMAGE, *_NORM, is_training=False)],
    "FusedBatchNormV3": [
        first_of(5, _IMAGE, *_NORM),
        first_of(5, _IMAGE, *_NORM, is_training=False),
    ],
    "FusedBatchNormGrad": [first_of(3, *_NORM_GRAD), first_of(3, *_NORM_GRAD, is_training=False)],
    "FusedBatchNormGradV2": [first_of(3, *_NORM_GRAD), first_of(3, *_NORM_GRAD, is_training=False)],
    "FusedBatchNormGradV3": [
        first_of(3, *_NORM_GRAD, _NORM[3]),
        first_of(3, *_NORM_GRAD, _NORM[3], is_training=False),
    ],
    "HSVToRGB": [row(unit(2, 6, 7, 3))],
    "RGBToHSV": [row(unit(2, 6, 7, 3))],
    "LRN": [row(_IMAGE, depth_radius=1)],
    "LRNGrad": [row(_IMAGE, positive(2, 6, 7, 3), positive(2, 6, 7, 3, seed=1), depth_radius=1)],
    "LinSpace": [row(real(0.5), real(3.0), scalar(7))],
    "MaxPool": [row(_IMAGE, **_WINDOWS)],
    "MaxPoolV2": [row(_IMAGE, ints(1, 2, 3, 1), ints(1, 2, 1, 1), padding="SAME")],
    "MaxPool3D": [row(_VOLUME, **_CUBES)],
    "MaxPool3DGrad": [_grad_of_pool(_pooled_3d, _VOLUME, normal(1, 4, 3, 6, 2), **_CUBES)],
    "MaxPool3DGradGrad": [
        _grad_of_pool(_pooled_3d, _VOLUME, normal(1, 4, 5, 6, 2, seed=1), **_CUBES)
    ],
    "MaxPoolGrad": [_grad_of_pool(_pooled, _IMAGE, normal(2, 3, 7, 3), **_WINDOWS)],
    "MaxPoolGradGrad": [_grad_of_pool(_pooled, _IMAGE, normal(2, 6, 7, 3, seed=1), **_WINDOWS)],
    "MaxPoolGradV2": [
        row(
            _IMAGE,
            Made(_pooled, (_IMAGE,)),
            normal(2, 3, 7, 3),
            ints(1, 2, 3, 1),
            ints(1, 2, 1, 1),
            padding="SAME",
        )
    ],
    "MaxPoolGradGradV2": [
        row(
            _IMAGE,
            Made(_pooled, (_IMAGE,)),
            normal(2, 6, 7, 3, seed=1),
            ints(1, 2, 3, 1),
            ints(1, 2, 1, 1),
            padding="SAME",
        )
    ],
    "NonMaxSuppressionV3": [row(_BOXES, unit(9), scalar(4), real(0.3), real(0.1))],
    "NonMaxSuppressionV4": [row(_BOXES, unit(9), scalar(4), real(0.3), real(0.1))],
    "NonMaxSuppressionV5": [
        row(_BOXES, unit(9), scalar(4), real(0.3), real(0.1), real(0.0)),
        row(_BOXES, unit(9), scalar(4), real(1.0), real(0.1), real(0.5)),
    ],
    "ResizeBilinear": [
        row(_IMAGE, ints(4, 9)),
        row(_IMAGE, ints(12, 3), half_pixel_centers=True),
        row(_IMAGE, ints(12, 3), align_corners=True),
    ],
    "ResizeBilinearGrad": [
        row(normal(2, 4, 9, 3), _IMAGE),
        row(normal(2, 4, 9, 3), _IMAGE, half_pixel_centers=True),
    ],
    "ResizeNearestNeighbor": [
        row(_IMAGE, ints(4, 9)),
        row(_IMAGE, ints(12, 3), half_pixel_centers=True),
        row(_IMAGE, ints(12, 3), align_corners=True),
    ],
    "SpaceToBatch": [row(normal(2, 3, 5, 2), ints([0, 1], [1, 0]), block_size=2)],
    "SpaceToBatchND": [row(normal(2, 3, 5, 2), ints(2, 2), ints([0, 1], [1, 0]))],
    "SpaceToDepth": [row(normal(2, 4, 6, 3), block_size=2)],
}
