"""Public functions of TensorFlow beside plain arithmetic, for arguments that they take and for others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import tensorflow as tf

from tests.scan.arguments import (
    changed,
    complexes,
    definite,
    in_type,
    integers,
    normal,
    special,
    unit,
)
from tests.scan.call import Call
from tests.scan.tensorflow_ways import call

_S: Final = tf.signal
_I: Final = tf.image
_L: Final = tf.linalg
_P: Final = tf.sparse
_N: Final = tf.nn
Entry = tuple[Callable[..., Any], Sequence[Any]]
_IMAGE: Final = normal(2, 6, 7, 3)
_PIXELS: Final = unit(2, 6, 7, 3)
_BYTES: Final = integers(2, 6, 7, 3, most=256).astype(np.uint8)
_PLACES: Final = np.array([[0, 1], [1, 3], [2, 0]], np.int64)


def _sparse(values: Any) -> Any:
    return tf.SparseTensor(_PLACES, values, [3, 4])


def _lookup(keys: Any, x: Any) -> Any:
    with tf.init_scope():
        table = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(
                [0, 1, 2], [10.0, 20.0, 30.0], tf.int32, tf.float32
            ),
            -1.0,
        )
    return table.lookup(keys) * x


def _words(x: Any) -> Any:
    return (
        tf.strings.to_number(
            tf.strings.join([tf.strings.as_string(tf.cast(x, tf.int32)), "5"]), tf.float32
        )
        + x
    )


def _dataset(x: Any) -> Any:
    data = tf.data.Dataset.from_tensor_slices(x).map(lambda r: r * 2).batch(2, drop_remainder=True)
    return data.reduce(tf.zeros((2, 3)), lambda a, b: a + b) + x[:2]


_ENTRIES: Final[dict[str, Entry]] = {
    "fft": (_S.fft, [complexes(3, 8)]),
    "fft2d": (_S.fft2d, [complexes(3, 4, 6)]),
    "fftnd": (lambda x, n, a: _S.fftnd(x, n, a), [complexes(3, 4, 6), [4, 6], [1, 2]]),
    "rfft": (_S.rfft, [normal(3, 9), [8]]),
    "irfft": (_S.irfft, [complexes(3, 5), [9]]),
    "rfft2d": (_S.rfft2d, [normal(3, 4, 6), [3, 8]]),
    "irfft2d": (_S.irfft2d, [complexes(3, 4, 4), [4, 7]]),
    "fftshift": (_S.fftshift, [normal(3, 5), [0, 1]]),
    "stft": (_S.stft, [normal(2, 40), 8, 3, 11]),
    "inverse_stft": (_S.inverse_stft, [complexes(7, 5), 8, 4, 8]),
    "frame": (_S.frame, [normal(2, 11), 4, 3, True, 0, -1]),
    "overlap_and_add": (_S.overlap_and_add, [normal(2, 5, 4), 2]),
    "dct": (_S.dct, [normal(2, 6), 2, 5]),
    "idct": (_S.idct, [normal(2, 6), 2]),
    "mdct": (_S.mdct, [normal(40), 8]),
    "hann_window": (lambda n: _S.hann_window(n), [7]),
    "kaiser_window": (lambda n, b: _S.kaiser_window(n, b), [7, 8.0]),
    "linear_to_mel": (_S.linear_to_mel_weight_matrix, [5, 9, 8000, 125.0, 3800.0]),
    "mfccs": (_S.mfccs_from_log_mel_spectrograms, [normal(3, 8)]),
    "resize": (lambda x, s: _I.resize(x, s), [_IMAGE, [4, 9]]),
    "resize bytes": (lambda x, s: _I.resize(x, s), [_BYTES, [4, 9]]),
    **{
        f"resize {m}": (lambda x, s, m=m: _I.resize(x, s, m), [_IMAGE, [4, 9]])
        for m in ("nearest", "bicubic", "area", "lanczos3")
    },
    "resize_with_pad": (_I.resize_with_pad, [_IMAGE, 9, 5]),
    "resize_with_crop_or_pad": (_I.resize_with_crop_or_pad, [_IMAGE, 9, 5]),
    "central_crop": (_I.central_crop, [_IMAGE, 0.5]),
    "crop_to_bounding_box": (_I.crop_to_bounding_box, [_IMAGE, 1, 2, 3, 4]),
    "pad_to_bounding_box": (_I.pad_to_bounding_box, [_IMAGE, 1, 2, 9, 10]),
    "crop_and_resize": (_I.crop_and_resize, [_IMAGE, unit(3, 4), integers(3, most=2), [3, 4]]),
    "extract_patches": (
        lambda x, k, s, r: _I.extract_patches(x, k, s, r, "SAME"),
        [_IMAGE, [1, 2, 3, 1], [1, 2, 1, 1], [1, 1, 2, 1]],
    ),
    "extract_glimpse": (
        lambda x, s, o: _I.extract_glimpse(x, s, o, noise="zero"),
        [_IMAGE, [3, 4], normal(2, 2)],
    ),
    "non_max_suppression": (_I.non_max_suppression, [unit(6, 4), unit(6), 4, 0.5]),
    "combined_non_max_suppression": (
        _I.combined_non_max_suppression,
        [unit(2, 6, 1, 4), unit(2, 6, 3), 4, 6],
    ),
    "draw_bounding_boxes": (_I.draw_bounding_boxes, [_IMAGE, unit(2, 3, 4), unit(1, 3)]),
    "rot90": (_I.rot90, [_IMAGE, 3]),
    "adjust_hue": (_I.adjust_hue, [_PIXELS, 0.2]),
    "adjust_saturation": (_I.adjust_saturation, [_PIXELS, 0.7]),
    "adjust_contrast": (_I.adjust_contrast, [_BYTES, 0.7]),
    "adjust_brightness": (_I.adjust_brightness, [_BYTES, 0.1]),
    "adjust_gamma": (_I.adjust_gamma, [_PIXELS, 0.7, 2.0]),
    "rgb_to_hsv": (_I.rgb_to_hsv, [_PIXELS]),
    "hsv_to_rgb": (_I.hsv_to_rgb, [_PIXELS]),
    "convert_image_dtype": (lambda x: _I.convert_image_dtype(x, tf.float32), [_BYTES]),
    "convert to bytes": (lambda x: _I.convert_image_dtype(x, tf.uint8, saturate=True), [_PIXELS]),
    "sobel_edges": (_I.sobel_edges, [_IMAGE]),
    "ssim": (lambda x, y: _I.ssim(x, y, 1.0), [unit(1, 12, 13, 3), unit(1, 12, 13, 3, seed=1)]),
    "sparse to dense": (lambda v: _P.to_dense(_sparse(v)), [normal(3)]),
    "sparse times dense": (
        lambda v, y: _P.sparse_dense_matmul(_sparse(v), y),
        [normal(3), normal(4, 2)],
    ),
    "sparse sum": (lambda v: _P.reduce_sum(_sparse(v), 1), [normal(3)]),
    "sparse added": (
        lambda v, w: _P.to_dense(_P.add(_sparse(v), _sparse(w))),
        [normal(3), normal(3, seed=1)],
    ),
    "sparse softmax": (lambda v: _P.softmax(_sparse(v)).values, [normal(3)]),
    "sparse transposed": (lambda v: _P.to_dense(_P.transpose(_sparse(v))), [normal(3)]),
    "sparse slice": (
        lambda v, b, s: _P.to_dense(_P.slice(_sparse(v), b, s)),
        [normal(3), [0, 1], [2, 3]],
    ),
    "sparse from dense": (lambda x: _P.from_dense(x).values, [np.maximum(normal(3, 4), 0)]),
    "sparse segment_sum": (
        _P.segment_sum,
        [normal(6, 3), integers(5), np.array([0, 0, 1, 1, 2], np.int32)],
    ),
    "sparse bincount": (lambda x: _P.to_dense(_P.bincount(x, minlength=5)), [integers(3, 4)]),
    "ragged sum": (
        lambda v, n: tf.reduce_sum(tf.RaggedTensor.from_row_lengths(v, n), 1),
        [normal(5), np.array([2, 0, 3])],
    ),
    "ragged mean": (
        lambda v, n: tf.reduce_mean(tf.RaggedTensor.from_row_splits(v, n), 1),
        [normal(5), np.array([0, 2, 2, 5])],
    ),
    "ragged to dense": (
        lambda v, n: tf.RaggedTensor.from_value_rowids(v, n).to_tensor(),
        [normal(5), np.array([0, 0, 2, 2, 3])],
    ),
    "ragged plus": (
        lambda v, n: (tf.RaggedTensor.from_row_lengths(v, n) + 1).flat_values,
        [normal(5), np.array([2, 0, 3])],
    ),
    "ragged concat": (
        lambda v, n: tf.concat([tf.RaggedTensor.from_row_lengths(v, n)] * 2, 1).flat_values,
        [normal(5), np.array([2, 0, 3])],
    ),
    "ragged range": (
        lambda a, b: tf.ragged.range(a, b).flat_values,
        [np.array([0, 5]), np.array([3, 9])],
    ),
    "ragged gather": (
        lambda x, i: tf.gather(x, tf.RaggedTensor.from_row_lengths(i, [2, 3])).flat_values,
        [normal(4, 3), integers(5)],
    ),
    "cholesky": (_L.cholesky, [definite(2, 4, 4)]),
    "cholesky of what has none": (_L.cholesky, [normal(2, 4, 4)]),
    "inv": (_L.inv, [definite(2, 4, 4)]),
    "inv of ones": (_L.inv, [np.ones((3, 3), np.float32)]),
    "solve": (_L.solve, [definite(2, 4, 4), normal(2, 4, 3)]),
    "lstsq": (lambda a, b, r: _L.lstsq(a, b, r), [normal(2, 5, 3), normal(2, 5, 2), 0.1]),
    "triangular_solve": (_L.triangular_solve, [definite(2, 4, 4), normal(2, 4, 3)]),
    "det": (_L.det, [normal(2, 4, 4)]),
    "slogdet": (_L.slogdet, [normal(2, 4, 4)]),
    "eigh": (lambda x: _L.eigh(x)[0], [definite(2, 4, 4)]),
    "svd": (lambda x: _L.svd(x, compute_uv=False), [normal(2, 4, 3)]),
    "qr": (lambda x: tf.abs(_L.qr(x)[1]), [normal(2, 4, 3)]),
    "lu": (_L.lu, [normal(2, 4, 4)]),
    "expm": (_L.expm, [normal(2, 3, 3)]),
    "matrix_rank": (_L.matrix_rank, [normal(2, 4, 3)]),
    "pinv": (_L.pinv, [normal(2, 4, 3)]),
    "norm": (lambda x: tf.norm(x, axis=[-2, -1]), [normal(2, 4, 3)]),
    "diag": (lambda x, k: _L.diag(x, k=k), [normal(2, 3), 1]),
    "diag_part": (lambda x, k: _L.diag_part(x, k=k), [normal(2, 4, 3), -1]),
    "set_diag": (lambda x, d, k: _L.set_diag(x, d, k=k), [normal(2, 4, 4), normal(2, 3), 1]),
    "band_part": (_L.band_part, [normal(2, 4, 5), 1, 2]),
    "tridiagonal_solve": (_L.tridiagonal_solve, [normal(3, 5) + 4, normal(5, 2)]),
    "tridiagonal_matmul": (_L.tridiagonal_matmul, [normal(3, 5), normal(5, 2)]),
    "cross": (_L.cross, [normal(2, 3), normal(2, 3, seed=1)]),
    "einsum": (lambda x, y: tf.einsum("bij,bjk->bik", x, y), [normal(2, 3, 4), normal(2, 4, 5)]),
    "tensordot": (tf.tensordot, [normal(2, 3, 4), normal(4, 3, 5), 1]),
    "conv2d": (lambda x, w, s: _N.conv2d(x, w, s, "SAME"), [_IMAGE, normal(3, 3, 3, 4), 2]),
    "conv2d dilated": (
        lambda x, w, d: _N.conv2d(x, w, 1, "VALID", dilations=d),
        [_IMAGE, normal(2, 2, 3, 4), 2],
    ),
    "conv2d_transpose": (
        lambda x, w, o, s: _N.conv2d_transpose(x, w, o, s),
        [_IMAGE, normal(3, 3, 4, 3), [2, 12, 14, 4], 2],
    ),
    "depthwise_conv2d": (
        lambda x, w, s: _N.depthwise_conv2d(x, w, s, "SAME"),
        [_IMAGE, normal(3, 3, 3, 2), [1, 2, 2, 1]],
    ),
    "conv3d": (
        lambda x, w: _N.conv3d(x, w, [1] * 5, "SAME"),
        [normal(1, 3, 4, 5, 2), normal(2, 2, 2, 2, 3)],
    ),
    "max_pool": (lambda x, k, s: _N.max_pool2d(x, k, s, "SAME"), [_IMAGE, 3, 2]),
    "avg_pool": (lambda x, k, s: _N.avg_pool2d(x, k, s, "VALID"), [_IMAGE, 3, 2]),
    "lrn": (_N.local_response_normalization, [_IMAGE, 2, 1.0, 0.3, 0.7]),
    "dilation2d": (
        lambda x, k: _N.dilation2d(x, k, [1] * 4, "SAME", "NHWC", [1] * 4),
        [_IMAGE, normal(2, 2, 3)],
    ),
    "space_to_depth": (_N.space_to_depth, [normal(2, 4, 6, 3), 2]),
    "depth_to_space": (_N.depth_to_space, [normal(2, 4, 6, 4), 2]),
    "space_to_batch": (tf.space_to_batch, [normal(2, 4, 6, 3), [2, 3], [[0, 0], [0, 0]]]),
    "top_k": (tf.math.top_k, [normal(3, 5), 2]),
    "in_top_k": (tf.math.in_top_k, [integers(3), normal(3, 5), 2]),
    "softmax": (tf.nn.softmax, [normal(3, 5), -1]),
    "ctc_greedy_decoder": (
        lambda x, n: _N.ctc_greedy_decoder(x, n)[1],
        [normal(6, 2, 5), np.array([6, 5], np.int32)],
    ),
    "gather": (lambda x, i, a: tf.gather(x, i, axis=a), [normal(3, 5), integers(2, most=3), 0]),
    "gather_nd": (tf.gather_nd, [normal(5, 4, 3), integers(6, 2)]),
    "scatter_nd": (lambda i, x, s: tf.scatter_nd(i, x, s), [integers(6, 1), normal(6, 3), [5, 3]]),
    "tensor_scatter_nd_add": (
        tf.tensor_scatter_nd_add,
        [normal(5, 3), integers(4, 1), normal(4, 3)],
    ),
    "segment_sum": (tf.math.segment_sum, [normal(5, 3), np.array([0, 0, 2, 2, 3], np.int32)]),
    "unsorted_segment_max": (tf.math.unsorted_segment_max, [normal(5, 3), integers(5), 4]),
    "bincount": (lambda x, n: tf.math.bincount(x, minlength=n), [integers(7), 5]),
    "dynamic_partition": (
        lambda x, i: tf.dynamic_partition(x, i, 2),
        [normal(5, 3), integers(5, most=2)],
    ),
    "boolean_mask": (lambda x, m: tf.boolean_mask(x, m > 1), [normal(5, 3), integers(5)]),
    "where": (lambda x: tf.where(x > 0), [normal(3, 5)]),
    "unique": (tf.unique, [integers(9)]),
    "unique_with_counts": (tf.unique_with_counts, [integers(9)]),
    "setdiff": (
        lambda x, y: tf.sets.difference(x[None], y[None]).values,
        [integers(9), integers(3, most=2)],
    ),
    "searchsorted": (tf.searchsorted, [np.sort(normal(7)), normal(4, seed=1)]),
    "histogram": (lambda x: tf.histogram_fixed_width(x, [-1.0, 1.0], 5), [normal(20)]),
    "cumsum": (lambda x, a: tf.cumsum(x, a), [normal(3, 5), 1]),
    "sort": (lambda x, a: tf.sort(x, a), [normal(3, 5), -1]),
    "argsort": (lambda x, a: tf.argsort(x, a, stable=True), [normal(3, 5), -1]),
    "argmax": (tf.argmax, [normal(3, 5), 1]),
    "roll": (tf.roll, [normal(3, 5), 2, 1]),
    "reverse": (tf.reverse, [normal(3, 5), [0, 1]]),
    "reverse_sequence": (lambda x, n: tf.reverse_sequence(x, n, 1), [normal(3, 5), integers(3)]),
    "sequence_mask": (lambda n: tf.sequence_mask(n, 5), [integers(4)]),
    "one_hot": (lambda i, n: tf.one_hot(i, n), [integers(4), 5]),
    "pad": (lambda x, p: tf.pad(x, p, "REFLECT"), [normal(3, 5), [[1, 2], [0, 3]]]),
    "slice": (tf.slice, [normal(3, 5), [0, 1], [2, 3]]),
    "strided_slice": (tf.strided_slice, [normal(3, 5), [0, 1], [3, 5], [1, 2]]),
    "split": (lambda x, n, a: tf.split(x, n, a), [normal(4, 6), 2, 1]),
    "tile": (tf.tile, [normal(3, 5), [2, 3]]),
    "repeat": (lambda x, n: tf.repeat(x, n, 0), [normal(3, 5), 2]),
    "reshape": (tf.reshape, [normal(3, 4), [2, 6]]),
    "transpose": (tf.transpose, [normal(3, 5), [1, 0]]),
    "broadcast_to": (tf.broadcast_to, [normal(1, 5), [3, 5]]),
    "meshgrid": (tf.meshgrid, [normal(3), normal(4)]),
    "range": (tf.range, [0, 9, 2]),
    "linspace": (tf.linspace, [0.0, 1.0, 5]),
    "eye": (lambda n: tf.eye(n), [4]),
    "fill": (lambda s: tf.fill(s, 2.0), [[3, 4]]),
    "bitcast": (lambda x: tf.bitcast(x, tf.int32), [normal(3, 5)]),
    "bitwise": (tf.bitwise.left_shift, [integers(5), integers(5, seed=1)]),
    "floordiv": (tf.math.floordiv, [integers(5), integers(5, seed=1)]),
    "words": (_words, [normal(3, 5)]),
    "lookup": (_lookup, [integers(5), normal(5)]),
    "hash of words": (
        lambda x: tf.strings.to_hash_bucket_fast(tf.strings.as_string(tf.cast(x, tf.int32)), 7),
        [normal(5)],
    ),
    "dataset": (_dataset, [normal(5, 3)]),
    "quantized": (
        lambda x, a, b: tf.quantization.fake_quant_with_min_max_vars(x, a, b),
        [normal(3, 5), np.float32(-1) + np.zeros((), np.float32), np.ones((), np.float32)],
    ),
    "confusion_matrix": (tf.math.confusion_matrix, [integers(6), integers(6, seed=1)]),
    "edit_distance": (lambda v: tf.edit_distance(_sparse(v), _sparse(v)), [integers(3)]),
    "approx_max_k": (tf.math.approx_max_k, [normal(3, 50), 5]),
    "nextafter": (
        tf.math.nextafter,
        [normal(3, 5).astype(np.float64), normal(3, 5, seed=1).astype(np.float64)],
    ),
    "stateless_uniform": (
        lambda s, n: tf.random.stateless_uniform(n, s),
        [np.array([1, 2], np.int32), [3, 5]],
    ),
    "stateless_normal": (
        lambda s, n: tf.random.stateless_normal(n, s),
        [np.array([1, 2], np.int32), [3, 5]],
    ),
    "stateless_truncated_normal": (
        lambda s, n: tf.random.stateless_truncated_normal(n, s),
        [np.array([1, 2], np.int32), [3, 5]],
    ),
    "stateless_shuffle": (
        lambda x, s: tf.random.experimental.stateless_shuffle(x, s),
        [normal(7), np.array([1, 2], np.int32)],
    ),
}


def calls() -> Iterator[Call]:
    for name, (function, arguments) in _ENTRIES.items():
        yield call(name, function, arguments)
        yield call(f"{name}, special", function, special(arguments), ["eager"])
        for dtype in (np.float64, np.float16):
            other = in_type(arguments, dtype)
            if any(x is not y for x, y in zip(other, arguments, strict=True)):
                of = f"{name}, {np.dtype(dtype).name}"
                yield call(of, function, other, ["eager", "compiled"])
        for number, (what, other) in enumerate(changed(arguments)):
            yield call(
                f"{name}, {what}",
                function,
                other,
                ["eager"] if number % 3 else ["eager", "compiled"],
            )
