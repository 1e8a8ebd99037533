"""Matrix products of element types that rivals handle differently."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..program import Registry

PROGRAMS = Registry("products", __name__)
ROWS = 4096


def normal(random: np.random.Generator, *shape: int) -> np.ndarray:
    return random.normal(size=shape).astype(np.float32)


def bytes_of(random: np.random.Generator, *shape: int) -> np.ndarray:
    return random.integers(-100, 100, shape).astype(np.int8)


def jax_product() -> Callable[..., Any]:
    import jax.numpy as jnp

    return lambda x, w: x @ w.astype(jnp.float32)


def torch_product() -> Callable[..., Any]:
    import torch

    return lambda x, w: x @ w.to(torch.float32)


def onnx_product(kind: str) -> Callable[..., Any]:
    """A model of one product."""
    from onnx import TensorProto, helper

    first, second = ["x0", "x1"]
    nodes = []
    types = {
        "f32": (TensorProto.FLOAT, TensorProto.FLOAT, TensorProto.FLOAT),
        "s8": (TensorProto.INT8, TensorProto.INT8, TensorProto.INT32),
        "f32 s8": (TensorProto.FLOAT, TensorProto.INT8, TensorProto.FLOAT),
    }[kind]
    if kind == "f32 s8":
        nodes.append(helper.make_node("Cast", [second], ["wide"], to=TensorProto.FLOAT))
        second = "wide"
    nodes.append(
        helper.make_node("MatMulInteger" if kind == "s8" else "MatMul", [first, second], ["y"])
    )
    values = [
        helper.make_tensor_value_info(n, t, None)
        for n, t in zip(("x0", "x1", "y"), types, strict=True)
    ]
    graph = helper.make_graph(nodes, "product", values[:2], values[2:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return lambda: model.SerializeToString()


PROGRAMS.add(
    "vector_by_s8_matrix",
    f"f32 vector by s8 matrix {ROWS}x{ROWS}, converted in the program",
    lambda r: (normal(r, 1, ROWS), bytes_of(r, ROWS, ROWS)),
    jax=jax_product,
    torch=torch_product,
    onnx=lambda: onnx_product("f32 s8"),
    numpy=lambda: lambda x, w: x @ w.astype(np.float32),
    bytes=float(ROWS * ROWS),
    flops=2.0 * ROWS * ROWS,
    terms=ROWS,
)


def jax_dot(result: str = "") -> Callable[..., Any]:
    """``result``: the element type; that of the operands without."""
    import jax
    import jax.numpy as jnp

    wide = getattr(jnp, result) if result else None
    return lambda a, b: jax.lax.dot(a, b, preferred_element_type=wide)


def torch_mm() -> Callable[..., Any]:
    import torch

    return lambda a, b: torch._int_mm(a, b) if a.dtype == torch.int8 else a @ b


def bf16(random: np.random.Generator, *shape: int) -> np.ndarray:
    """Rivals' environments without ml_dtypes have no programs of bf16."""
    import ml_dtypes

    return normal(random, *shape).astype(ml_dtypes.bfloat16)


for n in (64, 256, 512, 1024):
    PROGRAMS.add(
        f"product_f32_{n}",
        f"f32 {n}x{n} by {n}x{n}",
        lambda r, n=n: (normal(r, n, n), normal(r, n, n)),
        jax=lambda: jax_dot(),
        torch=torch_mm,
        numpy=lambda: np.matmul,
        onnx=lambda: onnx_product("f32"),
        bytes=12.0 * n * n,
        flops=2.0 * n**3,
        terms=n,
    )
for n in (256, 512, 1024):
    PROGRAMS.add(
        f"product_bf16_{n}",
        f"bf16 {n}x{n} by {n}x{n}",
        lambda r, n=n: (bf16(r, n, n), bf16(r, n, n)),
        jax=lambda: jax_dot(),
        torch=torch_mm,
        bytes=6.0 * n * n,
        flops=2.0 * n**3,
        unit="bf16",
        terms=n,
    )
    PROGRAMS.add(
        f"product_s8_{n}",
        f"s8 {n}x{n} by {n}x{n} to s32",
        lambda r, n=n: (bytes_of(r, n, n), bytes_of(r, n, n)),
        jax=lambda: jax_dot("int32"),
        torch=torch_mm,
        onnx=lambda: onnx_product("s8"),
        bytes=6.0 * n * n,
        flops=2.0 * n**3,
        unit="s8",
        terms=n,
    )
