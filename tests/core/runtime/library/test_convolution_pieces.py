"""Library call "convolution" of a batch in pieces: where oneDNN wants the arrays in another layout, the copies are
those of some images at a time.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from tripont.core import _tripont
from tripont.core.compiler.ir import dtypes
from tripont.core.compiler.ir.hlo import Shape

from .calls import Array, load, row_major, run

ROOT: Final = Path(__file__).resolve().parents[4]
FEATURES, SIDE = 16, 32
IMAGE_BYTES = 4 * FEATURES * SIDE * SIDE  # of float32
COPIED_BYTES = 512 << 10  # of copies for each thread: kCopiedBytes in convolution.cc
# An image of the input and one of the result: four of each fill a share of a thread.
IMAGES_OF_PIECE = COPIED_BYTES // (2 * IMAGE_BYTES) * _tripont.num_threads()
KERNEL = (FEATURES, FEATURES, 3, 3)


def dims(images: int) -> tuple[int, ...]:
    return (images, FEATURES, SIDE, SIDE)


def attributes(kind: str, images: int, epilogue: str) -> dict[str, Any]:
    """Features first, which oneDNN has no fast kernels of."""
    image, kernel = list(dims(images)), list(KERNEL)
    config: dict[str, Any] = {"kind": kind}
    for name, sizes in (("src", image), ("weights", kernel), ("dst", image)):
        config |= {f"{name}_dimensions": sizes, f"{name}_strides": row_major(sizes)}
    config |= {name: [1, 1] for name in ("strides", "dilations", "padding_low", "padding_high")}
    return config | ({"epilogue": epilogue} if epilogue else {})


def whole_numbers(rng: np.random.Generator, sizes: tuple[int, ...]) -> Array:
    """Small ones, whose sums are exact in any order."""
    return rng.integers(-4, 5, sizes).astype(np.float32)


@pytest.mark.parametrize("constants", [(), (1,)], ids=["weights", "constant weights"])
@pytest.mark.parametrize(
    ("kind", "epilogue"), [("forward", ""), ("forward", "bias add"), ("backward_data", "")]
)
@pytest.mark.parametrize(
    "extra", [0, 1, 5], ids=["even pieces", "others", "a prime number of images"]
)
def test_pieces_are_the_images_one_by_one(
    device: Any, kind: str, epilogue: str, constants: tuple[int, ...], extra: int
) -> None:
    images = 3 * IMAGES_OF_PIECE + extra
    rng = np.random.default_rng(0)
    x, w = whole_numbers(rng, dims(images)), whole_numbers(rng, KERNEL)
    bias, added = whole_numbers(rng, (FEATURES,)), whole_numbers(rng, dims(images))

    def convolved(first: int, last: int) -> Array:
        operands = [x[first:last], w, *([bias, added[first:last]] if epilogue else [])]
        count = last - first
        shapes = [Shape(dtypes.F32, dims(count))]
        config = attributes(kind, count, epilogue)
        return run(device, "convolution", operands, shapes, config, constants)[0]

    together = convolved(0, images)
    assert np.abs(together).max() < 1 << 24  # whole numbers up to there are exact in float32
    for image in (0, 1, images // 2, images - 1):
        np.testing.assert_array_equal(together[image : image + 1], convolved(image, image + 1))


def peak_beyond_piece(kind: str) -> float:
    """The most memory that a convolution takes, by that of its operands, its result and the copies of a piece."""
    device = _tripont.Client({"device": "host", "prestart_worker": False}).devices[0]
    images = 4 * IMAGES_OF_PIECE
    x, w = np.ones(dims(images), np.float32), np.ones(KERNEL, np.float32)
    shape = Shape(dtypes.F32, dims(images))
    load("convolution", [x, w], [shape], attributes(kind, images, "")).run(device, [x, w])
    piece = 2 * x.nbytes + 2 * w.nbytes + COPIED_BYTES * _tripont.num_threads()
    return float(device.memory_stats()["peak_bytes_in_use"] / piece)


@pytest.mark.parametrize("kind", ["forward", "backward_data"])
def test_copies_are_those_of_a_piece(kind: str) -> None:
    """In a process of its own: free blocks of earlier plans are larger than what this one asks for."""
    code = f"import {__name__} as here; print(here.peak_beyond_piece({kind!r}))"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    assert float(done.stdout.splitlines()[-1]) <= 1 + 1 / 8  # blocks are up to an eighth larger
