"""Images."""

from __future__ import annotations

from typing import Final

import tensorflow as tf

from .cases import Table, given, x

TABLE: Final = Table()
add = TABLE.add

_IMAGE: Final = x(2, 8, 6, 3, low=0, high=1)
_BOXES: Final = given(
    [[0, 0, 4, 4], [0, 0, 4, 3.9], [2, 2, 6, 6], [5, 5, 9, 9], [0, 1, 4, 4]], "float32"
)

for _method in ("bilinear", "nearest"):
    add(f"resize_{_method}", lambda a, m=_method: tf.image.resize(a, [11, 5], m), _IMAGE)
add("resize_area", lambda a: tf.image.resize(a, [4, 3], "area"), _IMAGE, jit=False)
add("resize_bicubic", lambda a: tf.image.resize(a, [11, 5], "bicubic"), _IMAGE, jit=False)
add(
    "resize_antialias",
    lambda a: tf.image.resize(a, [4, 3], "lanczos3", antialias=True),
    _IMAGE,
    tolerance=128,
    jit=False,
)
add("resize_with_pad", lambda a: tf.image.resize_with_pad(a, 12, 12), _IMAGE)
add("flip_left_right", tf.image.flip_left_right, _IMAGE)
add("flip_up_down", tf.image.flip_up_down, _IMAGE)
add("rot90", tf.image.rot90, _IMAGE, jit=False)
add("central_crop", lambda a: tf.image.central_crop(a, 0.5), _IMAGE)
add("crop", lambda a: tf.image.crop_to_bounding_box(a, 1, 2, 4, 3), _IMAGE)
add("pad_to_box", lambda a: tf.image.pad_to_bounding_box(a, 1, 2, 12, 12), _IMAGE)
add("adjust_brightness", lambda a: tf.image.adjust_brightness(a, 0.1), _IMAGE)
add("adjust_contrast", lambda a: tf.image.adjust_contrast(a, 1.5), _IMAGE)
add("adjust_saturation", lambda a: tf.image.adjust_saturation(a, 1.5), _IMAGE)
add("adjust_hue", lambda a: tf.image.adjust_hue(a, 0.1), _IMAGE, tolerance=128)
add("adjust_gamma", lambda a: tf.image.adjust_gamma(a, 1.5), _IMAGE)
add("rgb_to_hsv", tf.image.rgb_to_hsv, _IMAGE)
add("hsv_to_rgb", tf.image.hsv_to_rgb, _IMAGE)
add("rgb_to_grayscale", tf.image.rgb_to_grayscale, _IMAGE)
add("rgb_to_yuv", tf.image.rgb_to_yuv, _IMAGE)
add("per_image_standardization", tf.image.per_image_standardization, _IMAGE, tolerance=128)
add("image_gradients", tf.image.image_gradients, _IMAGE)
add("sobel_edges", tf.image.sobel_edges, _IMAGE)
add("total_variation", tf.image.total_variation, _IMAGE)
add("ssim", lambda a: tf.image.ssim(a, a * 0.9, 1.0, filter_size=5), _IMAGE, tolerance=1024)
add("psnr", lambda a: tf.image.psnr(a, a * 0.9, 1.0), _IMAGE)
add("convert_dtype", lambda a: tf.image.convert_image_dtype(a, tf.uint8), _IMAGE)
add(
    "crop_and_resize",
    lambda a: tf.image.crop_and_resize(a, [[0.1, 0.1, 0.9, 0.8]], [1], [4, 4]),
    _IMAGE,
    jit=False,
)
add(
    "non_max_suppression",
    lambda b: tf.image.non_max_suppression(b, [0.9, 0.8, 0.7, 0.6, 0.95], 3),
    _BOXES,
    jit=False,
)
_SCORES: Final = given([[0.9, 0.8, 0.7, 0.6, 0.95]], "float32")
add(
    "non_max_suppression_padded",
    lambda b, s: tf.image.non_max_suppression_padded(b[None], s, 3, pad_to_max_output_size=True),
    _BOXES,
    _SCORES,
)
add(
    "non_max_suppression_padded_tiles",
    lambda b, s: tf.image.non_max_suppression_padded(
        b[None] / 9,
        s,
        4,
        iou_threshold=0.4,
        score_threshold=0.65,
        pad_to_max_output_size=True,
        canonicalized_coordinates=True,
        tile_size=2,
    ),
    _BOXES,
    _SCORES,
)
add(
    "decode_png",
    lambda: tf.io.decode_png(tf.io.encode_png(tf.zeros([4, 4, 3], tf.uint8))),
    jit=False,
)
