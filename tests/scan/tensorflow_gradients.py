"""Gradients of TensorFlow's differentiable functions, once and twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import tensorflow as tf

from tests.scan import arguments as given
from tests.scan.arguments import (
    complexes,
    definite,
    integers,
    normal,
    positive,
    unit,
)
from tests.scan.call import Call
from tests.scan.tensorflow_ways import call

_M: Final = tf.math
_N: Final = tf.nn
_L: Final = tf.linalg
_I: Final = tf.image
Entry = tuple[Callable[..., Any], Sequence[Any]]


def _with(function: Callable[..., Any], *options: Any) -> Callable[..., Any]:
    return lambda *arguments: function(*arguments, *options)


def _of_complex(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x: _parts(function(tf.complex(x, x + 1)))


def _parts(z: Any) -> Any:
    return tf.stack([tf.math.real(z), tf.math.imag(z)])


_OF_ONE: Final[dict[str, Sequence[Any]]] = {
    **dict.fromkeys(
        [
            "abs",
            "asinh",
            "atan",
            "cos",
            "cosh",
            "erf",
            "erfc",
            "exp",
            "expm1",
            "negative",
            "reciprocal_no_nan",
            "rint",
            "sigmoid",
            "log_sigmoid",
            "sign",
            "sin",
            "sinh",
            "square",
            "softplus",
            "softsign",
            "tan",
            "tanh",
            "ceil",
            "floor",
            "bessel_i0",
            "bessel_i0e",
            "bessel_i1",
            "bessel_i1e",
        ],
        (normal(3, 5),),
    ),
    **dict.fromkeys(
        [
            "acosh",
            "digamma",
            "lgamma",
            "log",
            "log1p",
            "reciprocal",
            "rsqrt",
            "sqrt",
            "special.bessel_j0",
            "special.bessel_j1",
            "special.bessel_k0",
            "special.bessel_k0e",
            "special.bessel_k1",
            "special.bessel_k1e",
            "special.bessel_y0",
            "special.bessel_y1",
            "special.dawsn",
            "special.expint",
            "special.fresnel_cos",
            "special.fresnel_sin",
            "special.spence",
        ],
        (positive(3, 5) + 1,),
    ),
    **dict.fromkeys(["acos", "asin", "atanh", "erfinv", "ndtri", "erfcinv"], (unit(3, 5),)),
}
_OF_TWO: Final[dict[str, Sequence[Any]]] = {
    **dict.fromkeys(
        [
            "add",
            "atan2",
            "divide_no_nan",
            "maximum",
            "minimum",
            "multiply",
            "multiply_no_nan",
            "squared_difference",
            "subtract",
        ],
        (
            normal(3, 5),
            normal(5, seed=1),
        ),
    ),
    **dict.fromkeys(
        [
            "divide",
            "floormod",
            "igamma",
            "igammac",
            "pow",
            "xdivy",
            "xlogy",
            "xlog1py",
            "truediv",
            "floordiv",
            "mod",
            "zeta",
        ],
        (positive(3, 5) + 1, positive(5, seed=1) + 1),
    ),
}
_IMAGE: Final = normal(2, 6, 7, 3)
_SEGMENTS: Final = np.array([0, 0, 2, 2, 3], np.int32)
_OTHERS: Final[dict[str, Entry]] = {
    "betainc": (_M.betainc, [positive(4), positive(4, seed=1), unit(4)]),
    "polygamma": (_M.polygamma, [np.full(4, 2, np.float32), positive(4)]),
    "clip": (lambda x: tf.clip_by_value(x, -0.5, 0.5), [normal(3, 5)]),
    "clip by norm": (lambda x: tf.clip_by_norm(x, 1.0, [1]), [normal(3, 5)]),
    "global norm": (lambda x, y: tf.clip_by_global_norm([x, y], 1.0)[0], [normal(3, 5), normal(4)]),
    "where": (lambda x, y: tf.where(x > 0, x, y), [normal(3, 5), normal(3, 5, seed=1)]),
    "cast": (lambda x: tf.cast(tf.cast(x, tf.float16), tf.float32), [normal(3, 5)]),
    "add_n": (lambda x, y: tf.add_n([x, y, x]), [normal(3, 5), normal(3, 5, seed=1)]),
    "cumsum": (lambda x: tf.cumsum(x, 1, True, True), [normal(3, 5)]),
    "cumprod": (lambda x: _M.cumprod(x, 1), [normal(3, 5)]),
    "cumlogsumexp": (lambda x: _M.cumulative_logsumexp(x, 0), [normal(3, 5)]),
    **{
        f"reduce {f}": (_with(getattr(tf, f"reduce_{f}"), [0, 2]), [normal(2, 3, 5)])
        for f in ["sum", "mean", "max", "min", "prod", "logsumexp"]
    },
    **{
        f"reduce {f}": (_with(getattr(_M, f"reduce_{f}"), 1), [normal(3, 5)])
        for f in ["std", "variance", "euclidean_norm"]
    },
    "matmul": (lambda x, y: tf.matmul(x, y, transpose_a=True), [normal(2, 5, 3), normal(2, 5, 4)]),
    "matvec": (_L.matvec, [normal(2, 3, 5), normal(2, 5)]),
    "einsum": (lambda x, y: tf.einsum("bij,kj->bki", x, y), [normal(2, 3, 5), normal(4, 5)]),
    "tensordot": (lambda x, y: tf.tensordot(x, y, [[2], [0]]), [normal(2, 3, 5), normal(5, 4)]),
    "norm": (lambda x: tf.norm(x, 2, 1), [normal(3, 5)]),
    "l2_normalize": (lambda x: tf.nn.l2_normalize(x, 1), [normal(3, 5)]),
    "l2_loss": (_N.l2_loss, [normal(3, 5)]),
    **{
        f: (getattr(_N, f), [normal(3, 5)])
        for f in [
            "relu",
            "relu6",
            "elu",
            "selu",
            "leaky_relu",
            "gelu",
            "silu",
            "softmax",
            "log_softmax",
            "crelu",
        ]
    },
    "bias_add": (_N.bias_add, [_IMAGE, normal(3)]),
    "conv2d": (lambda x, w: _N.conv2d(x, w, 2, "SAME"), [_IMAGE, normal(3, 3, 3, 4)]),
    "conv2d dilated": (
        lambda x, w: _N.conv2d(x, w, 1, "VALID", dilations=2),
        [_IMAGE, normal(3, 3, 3, 4)],
    ),
    "conv2d explicit": (
        lambda x, w: _N.conv2d(x, w, [2, 1], [[0, 0], [1, 2], [0, 3], [0, 0]]),
        [_IMAGE, normal(3, 3, 3, 4)],
    ),
    "conv2d groups": (
        lambda x, w: _N.conv2d(x, w, 1, "SAME"),
        [normal(2, 6, 7, 4), normal(3, 3, 2, 6)],
    ),
    "conv2d transpose": (
        lambda x, w: _N.conv2d_transpose(x, w, [2, 12, 14, 4], 2),
        [_IMAGE, normal(3, 3, 4, 3)],
    ),
    "conv1d": (lambda x, w: _N.conv1d(x, w, 2, "SAME"), [normal(2, 7, 3), normal(3, 3, 4)]),
    "conv3d": (
        lambda x, w: _N.conv3d(x, w, [1, 2, 1, 2, 1], "SAME"),
        [normal(2, 4, 5, 6, 2), normal(2, 3, 2, 2, 3)],
    ),
    "conv3d transpose": (
        lambda x, w: _N.conv3d_transpose(x, w, [2, 8, 10, 12, 3], 2),
        [normal(2, 4, 5, 6, 2), normal(2, 3, 2, 3, 2)],
    ),
    "depthwise": (
        lambda x, w: _N.depthwise_conv2d(x, w, [1, 2, 2, 1], "SAME"),
        [_IMAGE, normal(3, 3, 3, 2)],
    ),
    "separable": (
        lambda x, d, p: _N.separable_conv2d(x, d, p, [1] * 4, "SAME"),
        [_IMAGE, normal(3, 3, 3, 2), normal(1, 1, 6, 4)],
    ),
    "erosion": (
        lambda x, k: _N.erosion2d(x, k, [1] * 4, "SAME", "NHWC", [1] * 4),
        [_IMAGE, normal(2, 2, 3)],
    ),
    "dilation": (
        lambda x, k: _N.dilation2d(x, k, [1] * 4, "SAME", "NHWC", [1] * 4),
        [_IMAGE, normal(2, 2, 3)],
    ),
    **{
        f"{f} {p} {s}": (_with(getattr(_N, f), 3, s, p), [_IMAGE])
        for f in ("max_pool2d", "avg_pool2d")
        for p in ("SAME", "VALID")
        for s in (1, 2)
    },
    "max_pool3d": (lambda x: _N.max_pool3d(x, 2, 2, "SAME"), [normal(2, 4, 5, 6, 2)]),
    "avg_pool3d": (lambda x: _N.avg_pool3d(x, 2, 2, "SAME"), [normal(2, 4, 5, 6, 2)]),
    "max_pool_with_argmax": (lambda x: _N.max_pool_with_argmax(x, 2, 2, "SAME")[0], [_IMAGE]),
    "fractional": (
        lambda x: tf.raw_ops.FractionalAvgPool(
            value=x, pooling_ratio=[1, 1.4, 1.7, 1], deterministic=True, seed=1
        )[0],
        [_IMAGE],
    ),
    "lrn": (lambda x: _N.local_response_normalization(x, 2, 1.0, 0.3, 0.7), [_IMAGE]),
    "batch norm": (
        lambda x, s, o: tf.compat.v1.nn.fused_batch_norm(x, s, o)[0],
        [_IMAGE, positive(3), normal(3)],
    ),
    "batch norm inference": (
        lambda x, s, o, m, v: tf.compat.v1.nn.fused_batch_norm(x, s, o, m, v, is_training=False)[0],
        [_IMAGE, positive(3), normal(3), normal(3, seed=1), positive(3, seed=1)],
    ),
    "moments": (lambda x: _N.moments(x, [0, 1]), [_IMAGE]),
    "softmax loss": (
        lambda x, y: _N.softmax_cross_entropy_with_logits(y, x),
        [normal(3, 5), unit(3, 5)],
    ),
    "sparse softmax loss": (
        lambda x, y: _N.sparse_softmax_cross_entropy_with_logits(y, x),
        [normal(3, 5), integers(3)],
    ),
    "sigmoid loss": (
        lambda x, y: _N.sigmoid_cross_entropy_with_logits(y, x),
        [normal(3, 5), unit(3, 5)],
    ),
    "weighted loss": (
        lambda x, y: _N.weighted_cross_entropy_with_logits(y, x, 2.0),
        [normal(3, 5), unit(3, 5)],
    ),
    "poisson loss": (lambda x, y: _N.log_poisson_loss(y, x, True), [normal(3, 5), positive(3, 5)]),
    "ctc_loss": (
        lambda x, y: _N.ctc_loss(y, x, np.array([3, 2]), np.array([6, 5]), blank_index=0),
        [normal(6, 2, 5), integers(2, 3) + 1],
    ),
    "gather": (lambda x, i: tf.gather(x, i, axis=1), [normal(3, 5), integers(2, 3)]),
    "gather batch": (
        lambda x, i: tf.gather(x, i, axis=1, batch_dims=1),
        [normal(3, 5), integers(3, 4)],
    ),
    "gather_nd": (tf.gather_nd, [normal(5, 4, 3), integers(6, 2)]),
    "scatter_nd": (lambda i, x: tf.scatter_nd(i, x, [5, 3]), [integers(6, 1), normal(6, 3)]),
    **{
        f"tensor_scatter_nd_{f}": (
            getattr(tf, f"tensor_scatter_nd_{f}"),
            [normal(5, 3), np.array([[1], [3], [0]], np.int32), normal(3, 3)],
        )
        for f in ["add", "sub", "update", "max", "min"]
    },
    **{
        f"segment {f}": (getattr(_M, f"segment_{f}"), [normal(5, 3), _SEGMENTS])
        for f in ["sum", "mean", "max", "min", "prod"]
    },
    **{
        f"unsorted segment {f}": (
            _with(getattr(_M, f"unsorted_segment_{f}"), 5),
            [normal(6, 3), integers(6)],
        )
        for f in ["sum", "mean", "max", "min", "prod", "sqrt_n"]
    },
    **{
        f"sparse segment {f}": (
            _with(getattr(tf.sparse, f"segment_{f}"), 6),
            [normal(6, 3), integers(5), _SEGMENTS],
        )
        for f in ["sum", "mean", "sqrt_n"]
    },
    "dynamic_stitch": (
        lambda x, y: tf.dynamic_stitch([[0, 2], [1, 3]], [x, y]),
        [normal(2, 3), normal(2, 3, seed=1)],
    ),
    "dynamic_partition": (lambda x: tf.dynamic_partition(x, [0, 1, 0, 1, 1], 2), [normal(5, 3)]),
    "boolean_mask": (
        lambda x: tf.boolean_mask(x, [True, False, True, True, False]),
        [normal(5, 3)],
    ),
    "pad": (lambda x: tf.pad(x, [[1, 2], [0, 1]]), [normal(3, 5)]),
    "pad reflect": (lambda x: tf.pad(x, [[1, 2], [0, 1]], "REFLECT"), [normal(3, 5)]),
    "pad symmetric": (lambda x: tf.pad(x, [[1, 2], [3, 1]], "SYMMETRIC"), [normal(3, 5)]),
    "slice": (lambda x: tf.slice(x, [1, 2], [2, -1]), [normal(3, 5)]),
    "strided slice": (lambda x: x[::-1, None, 1:4:2], [normal(3, 5)]),
    "reverse": (lambda x: tf.reverse(x, [-1]), [normal(3, 5)]),
    "reverse_sequence": (lambda x: tf.reverse_sequence(x, [3, 0, 5], seq_axis=1), [normal(3, 5)]),
    "roll": (lambda x: tf.roll(x, [7, -1], [0, 1]), [normal(3, 5)]),
    "tile": (lambda x: tf.tile(x, [2, 3]), [normal(3, 5)]),
    "repeat": (lambda x: tf.repeat(x, [1, 0, 3], axis=0), [normal(3, 5)]),
    "concat": (lambda x, y: tf.concat([x, y, x], -1), [normal(3, 5), normal(3, 2)]),
    "stack": (lambda x, y: tf.stack([x, y], 1), [normal(3, 5), normal(3, 5, seed=1)]),
    "split": (lambda x: tf.split(x, [1, 3, 1], 1)[1], [normal(3, 5)]),
    "unstack": (lambda x: tf.unstack(x, axis=1)[2], [normal(3, 5)]),
    "transpose": (lambda x: tf.transpose(x, [2, 0, 1]), [normal(2, 3, 5)]),
    "broadcast_to": (lambda x: tf.broadcast_to(x, [4, 3, 5]), [normal(3, 1)]),
    "space_to_depth": (lambda x: _N.space_to_depth(x, 2), [normal(2, 4, 6, 3)]),
    "depth_to_space": (lambda x: _N.depth_to_space(x, 2), [normal(2, 4, 6, 4)]),
    "space_to_batch": (
        lambda x: tf.space_to_batch(x, [2, 3], [[0, 0], [1, 1]]),
        [normal(2, 4, 7, 3)],
    ),
    "batch_to_space": (
        lambda x: tf.batch_to_space(x, [2, 3], [[0, 1], [1, 1]]),
        [normal(6, 4, 7, 3)],
    ),
    "extract_patches": (
        lambda x: _I.extract_patches(x, [1, 2, 3, 1], [1, 2, 1, 1], [1, 1, 2, 1], "SAME"),
        [_IMAGE],
    ),
    "sort": (lambda x: tf.sort(x, 1, "DESCENDING"), [normal(3, 5)]),
    "top_k": (lambda x: _M.top_k(x, 3)[0], [normal(3, 5)]),
    "nth_element": (
        lambda x: (
            _N.nth_element(x, 2)
            if hasattr(_N, "nth_element")
            else tf.raw_ops.NthElement(input=x, n=2)
        ),
        [normal(3, 5)],
    ),
    "cholesky": (_L.cholesky, [definite(2, 4, 4)]),
    "cholesky_solve": (_L.cholesky_solve, [np.linalg.cholesky(definite(2, 4, 4)), normal(2, 4, 3)]),
    "det": (_L.det, [definite(2, 4, 4)]),
    "logdet": (_L.logdet, [definite(2, 4, 4)]),
    "slogdet": (lambda x: _L.slogdet(x)[1], [definite(2, 4, 4)]),
    "inv": (_L.inv, [definite(2, 4, 4)]),
    "pinv": (_L.pinv, [normal(2, 4, 3)]),
    "solve": (lambda a, b: _L.solve(a, b, adjoint=True), [definite(2, 4, 4), normal(2, 4, 3)]),
    "lstsq": (lambda a, b: _L.lstsq(a, b), [normal(2, 5, 3), normal(2, 5, 2)]),
    "triangular_solve": (
        _L.triangular_solve,
        [np.linalg.cholesky(definite(2, 4, 4)), normal(2, 4, 3)],
    ),
    "eigvalsh": (_L.eigvalsh, [definite(2, 4, 4)]),
    "svd values": (lambda x: _L.svd(x, compute_uv=False), [normal(2, 4, 3)]),
    "qr of R": (lambda x: tf.abs(_L.qr(x)[1]), [normal(2, 4, 3)]),
    "lu": (lambda x: _L.lu(x)[0], [definite(2, 4, 4)]),
    "expm": (_L.expm, [normal(2, 3, 3)]),
    "logm": (lambda x: tf.math.real(_L.logm(tf.complex(x, tf.zeros_like(x)))), [definite(3, 3)]),
    "sqrtm": (_L.sqrtm, [definite(3, 3)]),
    "tridiagonal_solve": (
        lambda d, b: _L.tridiagonal_solve(d, b),
        [normal(3, 5) + 4, normal(5, 2)],
    ),
    "tridiagonal_matmul": (lambda d, b: _L.tridiagonal_matmul(d, b), [normal(3, 5), normal(5, 2)]),
    "banded_triangular_solve": (_L.banded_triangular_solve, [normal(2, 5) + 3, normal(5, 2)]),
    "trace": (_L.trace, [normal(2, 3, 5)]),
    "diag": (lambda x: _L.diag(x, k=1), [normal(2, 3)]),
    "diag_part": (lambda x: _L.diag_part(x, k=(-1, 1)), [normal(2, 3, 5)]),
    "set_diag": (lambda x, d: _L.set_diag(x, d), [normal(2, 3, 5), normal(2, 3)]),
    "band_part": (lambda x: _L.band_part(x, 1, 0), [normal(2, 4, 5)]),
    "cross": (_L.cross, [normal(4, 3), normal(4, 3, seed=1)]),
    **{
        f: (_of_complex(getattr(tf.signal, f)), [normal(2, 4, 6)])
        for f in ("fft", "ifft", "fft2d", "ifft2d", "fft3d", "ifft3d")
    },
    "rfft": (lambda x: _parts(tf.signal.rfft(x, [8])), [normal(2, 6)]),
    "rfft short": (lambda x: _parts(tf.signal.rfft(x, [5])), [normal(2, 6)]),
    "irfft": (lambda x: tf.signal.irfft(tf.complex(x, x + 1), [10]), [normal(2, 6)]),
    "irfft odd": (lambda x: tf.signal.irfft(tf.complex(x, x + 1), [7]), [normal(2, 6)]),
    "rfft2d": (lambda x: _parts(tf.signal.rfft2d(x)), [normal(2, 4, 6)]),
    "irfft2d": (lambda x: tf.signal.irfft2d(tf.complex(x, x + 1)), [normal(2, 4, 6)]),
    "stft": (lambda x: _parts(tf.signal.stft(x, 8, 3)), [normal(2, 40)]),
    "inverse_stft": (lambda x: tf.signal.inverse_stft(tf.complex(x, x + 1), 8, 4), [normal(7, 5)]),
    "mdct": (lambda x: tf.signal.mdct(x, 8), [normal(40)]),
    "inverse_mdct": (tf.signal.inverse_mdct, [normal(7, 4)]),
    **{f"dct {t}": (lambda x, t=t: tf.signal.dct(x, t), [normal(2, 6)]) for t in (1, 2, 3, 4)},
    **{f"idct {t}": (lambda x, t=t: tf.signal.idct(x, t), [normal(2, 6)]) for t in (1, 2, 3, 4)},
    "frame": (lambda x: tf.signal.frame(x, 4, 3, pad_end=True), [normal(2, 11)]),
    "overlap_and_add": (lambda x: tf.signal.overlap_and_add(x, 2), [normal(2, 5, 4)]),
    **{
        f"resize {m} {'antialias' if a else ''}": (
            lambda x, m=m, a=a: _I.resize(x, [4, 11], m, antialias=a),
            [_IMAGE],
        )
        for m in [
            "bilinear",
            "bicubic",
            "nearest",
            "area",
            "lanczos3",
            "lanczos5",
            "gaussian",
            "mitchellcubic",
        ]
        for a in (False, True)
    },
    "crop_and_resize": (
        lambda x, b: _I.crop_and_resize(x, b, [0, 1, 1], [3, 4]),
        [_IMAGE, unit(3, 4)],
    ),
    **{
        f: (getattr(_I, f), [unit(2, 6, 7, 3)])
        for f in [
            "rgb_to_hsv",
            "hsv_to_rgb",
            "rgb_to_grayscale",
            "rgb_to_yiq",
            "yiq_to_rgb",
            "rgb_to_yuv",
            "yuv_to_rgb",
            "per_image_standardization",
            "total_variation",
            "sobel_edges",
            "image_gradients",
            "flip_left_right",
            "rot90",
            "transpose",
        ]
    },
    "adjust_hue": (lambda x: _I.adjust_hue(x, 0.2), [unit(2, 6, 7, 3)]),
    "adjust_saturation": (lambda x: _I.adjust_saturation(x, 0.7), [unit(2, 6, 7, 3)]),
    "adjust_contrast": (lambda x: _I.adjust_contrast(x, 1.7), [unit(2, 6, 7, 3)]),
    "adjust_gamma": (lambda x: _I.adjust_gamma(x, 1.7), [unit(2, 6, 7, 3)]),
    "ssim": (lambda x, y: _I.ssim(x, y, 1.0), [unit(2, 12, 13, 3), unit(2, 12, 13, 3, seed=1)]),
    "psnr": (lambda x, y: _I.psnr(x, y, 1.0), [unit(2, 6, 7, 3), unit(2, 6, 7, 3, seed=1)]),
    "complex abs": (tf.abs, [complexes(3, 5)]),
    "complex angle": (lambda z: _M.angle(z), [complexes(3, 5)]),
    "complex product": (
        lambda z, w: _parts(z * tf.math.conj(w)),
        [complexes(3, 5), complexes(3, 5, seed=3)],
    ),
    "complex sqrt": (lambda z: _parts(tf.sqrt(z)), [complexes(3, 5)]),
    "complex tanh": (lambda z: _parts(tf.tanh(z)), [complexes(3, 5)]),
    "sparse dense product": (
        lambda v, y: tf.sparse.sparse_dense_matmul(tf.SparseTensor([[0, 1], [2, 3]], v, [3, 4]), y),
        [normal(2), normal(4, 2)],
    ),
    "embedding": (lambda x, i: _N.embedding_lookup(x, i), [normal(5, 3), integers(2, 3)]),
    "safe embedding": (
        lambda x: _N.safe_embedding_lookup_sparse(
            x, tf.SparseTensor([[0, 0], [0, 1], [2, 0]], tf.constant([1, 3, 0], tf.int64), [3, 2])
        ),
        [normal(5, 3)],
    ),
    "fake_quant": (
        lambda x: tf.quantization.fake_quant_with_min_max_vars(x, -1.0, 1.0),
        [normal(3, 5)],
    ),
    "fake_quant channels": (
        tf.quantization.fake_quant_with_min_max_vars_per_channel,
        [normal(3, 5), -unit(5), unit(5)],
    ),
    "quantize_and_dequantize": (
        lambda x: tf.quantization.quantize_and_dequantize_v2(x, -1.0, 1.0),
        [normal(3, 5)],
    ),
    "ragged sum": (
        lambda v: tf.reduce_sum(tf.RaggedTensor.from_row_lengths(v, [2, 0, 3]), axis=1),
        [normal(5)],
    ),
    "ragged to dense": (
        lambda v: tf.RaggedTensor.from_row_lengths(v, [2, 0, 3]).to_tensor(),
        [normal(5, 2)],
    ),
    "histogram range": (lambda x: tf.linalg.normalize(x)[0], [normal(3, 5)]),
    "scan of products": (lambda x: tf.scan(lambda a, b: a * b + 1, x), [normal(5, 3)]),
    "map_fn": (lambda x: tf.map_fn(lambda r: tf.reduce_logsumexp(r) * r, x), [normal(5, 3)]),
    "foldr": (lambda x: tf.foldr(lambda a, b: tf.tanh(a + b), x), [normal(5, 3)]),
    "cond": (
        lambda x: tf.cond(tf.reduce_sum(x) > 0, lambda: x * x, lambda: tf.exp(x)),
        [normal(5, 3)],
    ),
}


def _table() -> dict[str, Entry]:
    table: dict[str, Entry] = {}
    for names in (_OF_ONE, _OF_TWO):
        for name, arguments in names.items():
            function: Any = tf.math
            for part in name.split("."):
                function = getattr(function, part, None)
            if function is not None:
                table[name] = function, arguments
    return table | _OTHERS


def _gradient(function: Callable[..., Any], times: int = 1) -> Callable[..., Any]:
    """The gradients by each argument of floats, of the sum of all results by weights that are not alike."""

    def total(values: Any) -> Any:
        flat = [y for y in tf.nest.flatten(values) if y.dtype.is_floating]
        sums = [
            tf.reduce_sum(
                y
                * tf.cast(
                    tf.reshape(tf.cos(tf.range(tf.cast(tf.size(y), tf.float64))), tf.shape(y)),
                    y.dtype,
                )
            )
            for y in flat
        ]
        return tf.add_n([tf.cast(s, sums[0].dtype) for s in sums])

    def gradients(*arguments: Any) -> Any:
        watched = [
            a
            for a in arguments
            if isinstance(a, tf.Tensor) and (a.dtype.is_floating or a.dtype.is_complex)
        ]
        with tf.GradientTape() as tape:
            tape.watch(watched)
            y = function(*arguments) if times == 1 else _gradient(function, times - 1)(*arguments)
            y = total(y)
        return [tf.convert_to_tensor(g) for g in tape.gradient(y, watched) if g is not None]

    return gradients


def calls() -> Iterator[Call]:
    for name, (function, arguments) in _table().items():
        gradient = _gradient(function)
        yield call(f"gradient of {name}", gradient, arguments)
        twice = _gradient(function, 2)
        yield call(f"second gradient of {name}", twice, arguments, ["compiled"])
        doubles = given.in_type(arguments, np.float64)
        yield call(f"gradient of {name}, float64", gradient, doubles, ["compiled"])
        halves = given.in_type(arguments, np.float16)
        yield call(f"gradient of {name}, float16", gradient, halves, ["eager"])
        yield call(f"gradient of {name}, special", gradient, given.special(arguments), ["eager"])
        sizes = {n for a in arguments if isinstance(a, np.ndarray) for n in a.shape}
        for size in sorted(sizes):
            cut = given.emptied(arguments, size)
            yield call(f"gradient of {name}, no {size}", gradient, cut, ["eager", "compiled"])
