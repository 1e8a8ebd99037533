"""Products and convolutions of integers with the worst values, against NumPy's integers: every number must be equal.

``python -m tests.cpus.integer_products`` prints each difference, and ends with 1 if there was one. It runs the
programs as a framework does: the runtime's client has them compiled.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
from tripont.core import _tripont

TYPES = {"i8": np.int8, "ui8": np.uint8, "i16": np.int16, "ui16": np.uint16, "i32": np.int32}
RESULTS = {"i32": np.int32, "i64": np.int64, "i8": np.int8}
Array = np.ndarray[Any, Any]


def tensor(dims: tuple[int, ...], element: str) -> str:
    return f"tensor<{''.join(f'{d}x' for d in dims)}{element}>"


def values(kind: str, element: str, dims: tuple[int, ...]) -> Array:
    """``least``: the least number everywhere (the largest, if unsigned), ``greatest``, or a mix of the extremes."""
    info = np.iinfo(TYPES[element])
    least = info.min or info.max
    if kind == "mixed":
        rng = np.random.default_rng(len(dims))
        return rng.choice([least, info.max, info.max - 1], dims).astype(info.dtype)
    return np.full(dims, least if kind == "least" else info.max, info.dtype)


def exact_product(a: Array, b: Array) -> Array:
    """The matrix product in 64-bit integers, or in f64 (so by BLAS) where sums of up to 2^23 products are exact."""
    wide = np.float64 if max(a.itemsize, b.itemsize) <= 2 else np.int64
    return np.matmul(a.astype(wide), b.astype(wide)).astype(np.int64)


def dot(
    client: Any, types: tuple[str, str, str], b: int, m: int, k: int, n: int,
    orders: tuple[tuple[int, ...], tuple[int, ...]] = ((0, 1, 2), (0, 1, 2)),
) -> Iterator[str]:  # fmt: skip
    """``orders``: how the dimensions of [b, m, k] and [b, k, n] lie in memory."""
    lhs, rhs, result = types
    first, second = orders
    x = tensor(tuple((b, m, k)[d] for d in first), lhs)
    y, z = tensor(tuple((b, k, n)[d] for d in second), rhs), tensor((b, m, n), result)
    numbers = (
        f"batching_dims = [{first.index(0)}] x [{second.index(0)}], "
        f"contracting_dims = [{first.index(2)}] x [{second.index(1)}]"
    )
    program = f"""func.func @main(%x: {x}, %y: {y}) -> {z} {{
      %0 = stablehlo.dot_general %x, %y, {numbers} : ({x}, {y}) -> {z}
      return %0 : {z}
    }}"""
    artifact, _ = client.compile(program.encode())
    executable = _tripont.Executable.load(artifact)
    for left, right in (("least", "least"), ("greatest", "least"), ("mixed", "mixed")):
        a, c = values(left, lhs, (b, m, k)), values(right, rhs, (b, k, n))
        lying = [
            np.ascontiguousarray(v.transpose(order))
            for v, order in zip((a, c), orders, strict=True)
        ]
        (got,) = executable.run(client.devices[0], lying)
        want = exact_product(a, c).astype(RESULTS[result])
        wrong = int((np.asarray(got) != want).sum())
        if wrong:
            yield (
                f"dot {lhs} x {rhs} -> {result}, {b}x{m}x{k}x{n}, {left} by {right}: "
                f"{wrong} of {want.size} numbers are wrong"
            )


def convolution(
    client: Any,
    element: str,
    size: int,
    features: int,
    window: int,
    stride: int = 1,
    padding: int = 0,
    groups: int = 1,
    outputs: int = 8,
    last: bool = False,
) -> Iterator[str]:
    """Images [2, features, size, size], or features ``last``, with ``outputs`` features of the result a group."""
    image = (2, features, size, size)
    kernel = (outputs * groups, features // groups, window, window)
    edge = (size + 2 * padding - window) // stride + 1
    result = (2, outputs * groups, edge, edge)
    order = (0, 2, 3, 1) if last else (0, 1, 2, 3)
    x, z = (
        tensor(tuple(dims[d] for d in order), t) for dims, t in ((image, element), (result, "i32"))
    )
    y = tensor(kernel, element)
    places = "b, 0, 1, f" if last else "b, f, 0, 1"
    program = f"""func.func @main(%x: {x}, %y: {y}) -> {z} {{
      %0 = stablehlo.convolution(%x, %y) dim_numbers = [{places}]x[o, i, 0, 1]->[{places}],
        window = {{stride = [{stride}, {stride}], pad = [[{padding}, {padding}], [{padding}, {padding}]]}}
        {{batch_group_count = 1 : i64, feature_group_count = {groups} : i64}} : ({x}, {y}) -> {z}
      return %0 : {z}
    }}"""
    artifact, _ = client.compile(program.encode())
    executable = _tripont.Executable.load(artifact)
    for left, right in (("least", "least"), ("greatest", "least"), ("mixed", "mixed")):
        a, w = values(left, element, image), values(right, element, kernel)
        given = np.ascontiguousarray(a.transpose(order))
        (got,) = executable.run(client.devices[0], [given, w])
        pad = ((0, 0), (0, 0), (padding, padding), (padding, padding))
        padded = np.pad(a.astype(np.int64), pad).reshape(2, groups, features // groups, -1)
        padded = padded.reshape(*padded.shape[:3], size + 2 * padding, size + 2 * padding)
        kernels = w.astype(np.int64).reshape(groups, outputs, features // groups, window, window)
        want = np.zeros((2, groups, outputs, edge, edge), np.int64)
        for i, j in itertools.product(range(window), repeat=2):
            reach = (edge - 1) * stride + 1
            seen = padded[..., i : i + reach : stride, j : j + reach : stride]
            want += np.einsum("ngchw,goc->ngohw", seen, kernels[..., i, j])
        exact = want.reshape(result).transpose(order).astype(np.int32)
        wrong = int((np.asarray(got) != exact).sum())
        if wrong:
            yield (
                f"convolution of {element}, {size}x{size}x{features}, window {window}, stride {stride}, "
                f"padding {padding}, {groups} groups, {left} by {right}: {wrong} of {want.size} numbers are wrong"
            )


def differences(client: Any) -> Iterator[str]:
    """Sizes are beside every threshold: generated or library, one sum or several, whole blocks or not."""
    eights = list(itertools.product(("i8", "ui8"), repeat=2))
    for types in eights:
        for b, m, k, n in (
            (1, 48, 64, 90),
            (1, 128, 128, 128),
            (2, 20, 514, 40),
            (1, 65, 1025, 33),
            (1, 20, 100_000, 12),
            (1, 1, 3000, 200),
        ):
            yield from dot(client, (*types, "i32"), b, m, k, n)
    # Batches between neighbours, in either operand and in both; few columns are not packed.
    for orders in (((0, 1, 2), (1, 2, 0)), ((2, 1, 0), (0, 2, 1)), ((1, 2, 0), (2, 1, 0))):
        for b, m, k, n in ((8, 48, 56, 13), (8, 13, 56, 48)):
            yield from dot(client, ("i8", "i8", "i32"), b, m, k, n, orders)
    for types in (("i8", "i8", "i8"), ("ui8", "i8", "i64"), ("i8", "i16", "i32")):
        yield from dot(client, types, 1, 70, 2100, 40)
    for element in ("i16", "ui16", "i32"):
        yield from dot(client, (element, element, "i32"), 1, 64, 1500, 40)
    # StableHLO's convolutions have operands of one type.
    for element in ("i8", "ui8", "i16"):
        yield from convolution(client, element, 14, 16, 3, padding=1)
        yield from convolution(client, element, 9, 120, 3, stride=2)  # 1080 products
    for element in ("i8", "ui8"):
        yield from convolution(client, element, 12, 32, 5, padding=2, groups=4)
        yield from convolution(client, element, 5, 1024, 1)
        yield from convolution(client, element, 5, 1100, 1)
        # Depthwise ones, with features last, have a kernel of their own.
        yield from convolution(client, element, 14, 40, 3, 1, 1, groups=40, outputs=1, last=True)
        yield from convolution(client, element, 15, 40, 7, 2, 3, groups=40, outputs=2, last=True)
        # Rows of a product: windows of one element, and of few positions.
        yield from convolution(client, element, 9, 1100, 1, outputs=40)
        yield from convolution(client, element, 5, 120, 3, padding=1, outputs=40)


def main() -> int:
    client = _tripont.Client({"cache": False})
    found = list(differences(client))
    for line in found:
        print(line)
    print(f"{_tripont.cpu_name()}: {len(found)} differences")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
