"""``python -m tests.arm64.products``: matrix products in every element type, past the sizes from which they are packed.

Integers have the worst values, floats whole numbers whose sums every type holds: every number must be exact. Sizes
leave edges of the tiles in each direction. Prints what is wrong, and ends with 1 if something is.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
from tripont.core import _tripont

from tests.cpus import integer_products

FLOATS = {"f64": np.float64, "f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}
SHAPES = ((65, 130, 70), (5, 300, 257), (1, 512, 200))  # m, k, n
INTEGERS = (("i8", "i8", "i32"), ("ui8", "i8", "i32"), ("ui8", "ui8", "i32"), ("i16", "i16", "i32"))


def float_product(client: Any, element: str, m: int, k: int, n: int) -> Iterator[str]:
    x, y, z = (integer_products.tensor(dims, element) for dims in ((m, k), (k, n), (m, n)))
    program = f"""func.func @main(%x: {x}, %y: {y}) -> {z} {{
      %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : ({x}, {y}) -> {z}
      return %0 : {z}
    }}"""
    rng = np.random.default_rng(m)
    a, b = rng.integers(-1, 2, (m, k)), rng.integers(-1, 2, (k, n))
    dtype = FLOATS[element]
    executable = _tripont.Executable.load(client.compile(program.encode())[0])
    (result,) = executable.run(client.devices[0], [a.astype(dtype), b.astype(dtype)])
    got = np.asarray(result)
    wrong = int((got.astype(np.float64) != a @ b).sum())
    if wrong:
        yield f"dot {element}, {m}x{k}x{n}: {wrong} of {m * n} numbers are wrong"


def differences() -> Iterator[str]:
    client = _tripont.Client({})
    for m, k, n in SHAPES:
        for element in FLOATS:
            yield from float_product(client, element, m, k, n)
        for types in INTEGERS:
            yield from integer_products.dot(client, types, 1, m, k, n)
    # A sum of 10,000 products that is as large as products of 8 bits can make it.
    yield from integer_products.dot(client, ("i8", "i8", "i32"), 1, 8, 10_000, 16)
    yield from integer_products.convolution(client, "i8", 12, 16, 3)


def main() -> int:
    found = list(differences())
    for line in found:
        print(line)
    print(f"{_tripont.cpu_name()}: {', '.join(_tripont.cpu_features())}: {len(found)} differences")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
