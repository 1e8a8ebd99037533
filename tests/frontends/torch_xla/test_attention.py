"""``scaled_dot_product_attention`` is one kernel, and its gradients are another, with PyTorch's results."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch_xla
from torch.nn.functional import scaled_dot_product_attention
from tripont.core.compiler import pipeline
from tripont.core.compiler.importer.program import read_program
from tripont.core.compiler.observe.dump import Dump
from tripont.core.compiler.targets.host import for_cpu

# Sums of up to 300 terms of size 1, and gradients of up to 300 of those, in another order than PyTorch's.
TOLERANCE = {"rtol": 300 * 2.0**-24, "atol": 300 * 2.0**-24}


def random(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def mask_of(queries: int, keys: int) -> torch.Tensor:
    """Half of the keys at random, and none for two queries."""
    mask = torch.rand(queries, keys, generator=torch.Generator().manual_seed(1)) < 0.5
    mask[3] = False
    mask[queries // 2] = False
    return mask


FORMS: dict[str, tuple[dict[str, Any], tuple[int, ...], tuple[int, ...]]] = {
    "plain": ({}, (2, 4, 100, 64), (2, 4, 180, 64)),
    "causal": ({"is_causal": True}, (2, 4, 180, 64), (2, 4, 180, 64)),
    "causal, more keys": ({"is_causal": True}, (2, 4, 100, 64), (2, 4, 300, 64)),
    "causal, more queries": ({"is_causal": True}, (2, 4, 300, 64), (2, 4, 100, 64)),
    "mask": ({"attn_mask": mask_of(100, 180)}, (2, 4, 100, 64), (2, 4, 180, 64)),
    "bias": ({"attn_mask": random(100, 180)}, (2, 4, 100, 64), (2, 4, 180, 64)),
    "lengths": (
        {"attn_mask": (torch.arange(180) < torch.tensor([[100], [0]]))[:, None, None]},
        (2, 4, 100, 64),
        (2, 4, 180, 64),
    ),
    "groups": ({"enable_gqa": True, "is_causal": True}, (1, 8, 128, 32), (1, 2, 128, 32)),
    "one head": ({"scale": 0.3}, (300, 64), (180, 64)),
    "heads joined": ({}, (8, 100, 64), (8, 180, 64)),
}


def kinds(tensors: list[torch.Tensor]) -> list[str]:
    """What the program that computes ``tensors`` is made of, on any CPU with AVX2."""
    proto = torch_xla._XLAC._get_xla_tensors_hlo_proto(tensors)
    module = pipeline.run(read_program(proto, "hlo"), for_cpu("x86-64-v3", False), Dump())
    return [i.attributes.get("kind", i.opcode) for i in module.entry.instructions]


def attend(name: str, device: str) -> list[torch.Tensor]:
    """The result, and the gradients of queries, keys and values."""
    options, queries, keys = FORMS[name]
    q, k = random(*queries), random(*keys)
    operands = [x.to(device).requires_grad_() for x in (q, k, k * 0.5 + 0.25)]
    options = {n: x.to(device) if isinstance(x, torch.Tensor) else x for n, x in options.items()}
    result = scaled_dot_product_attention(*operands, **options)
    (result * result).sum().backward()
    return [result.detach(), *(x.grad for x in operands)]


@pytest.mark.parametrize("name", FORMS)
def test_forms(name: str) -> None:
    got = attend(name, "xla")
    made = kinds(got)
    assert made.count("attention") == made.count("attention-gradient") == 1
    assert not {"dot", "packed-dot"} & set(made)
    for ours, right in zip(got, attend(name, "cpu"), strict=True):
        torch.testing.assert_close(ours.cpu(), right, **TOLERANCE)


@pytest.mark.parametrize("inference", [False, True])
def test_what_a_causal_mask_leaves_out_is_not_computed(inference: bool) -> None:
    q, k = random(1, 2, 300, 32), random(1, 2, 300, 32)
    v = k.clone()
    v[:, :, 299] = math.nan
    with torch.inference_mode(inference):
        result = scaled_dot_product_attention(
            *(x.to("xla") for x in (q, k, v)), is_causal=True
        ).cpu()
    assert result[:, :, 299].isnan().all()
    assert not result[:, :, :64].isnan().any()
    right = scaled_dot_product_attention(q, k, k, is_causal=True)
    torch.testing.assert_close(result[:, :, :64], right[:, :, :64], **TOLERANCE)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_types(dtype: torch.dtype) -> None:
    q, k = random(1, 2, 64, 32).to(dtype), random(1, 2, 64, 32).to(dtype)
    got = scaled_dot_product_attention(*(x.to("xla") for x in (q, k, k)), is_causal=True)
    assert got.dtype == dtype
    right = scaled_dot_product_attention(*(x.double() for x in (q, k, k)), is_causal=True)
    unit = torch.finfo(dtype).eps  # the result is rounded, and so are scores and weights
    torch.testing.assert_close(got.cpu().double(), right, rtol=4 * unit, atol=4 * unit)


def test_a_mask_beside_causal_attention_is_refused() -> None:
    x = random(1, 8, 4).to("xla")
    with pytest.raises(RuntimeError, match="is_causal"):
        scaled_dot_product_attention(
            x, x, x, attn_mask=torch.ones(8, 8, dtype=torch.bool, device="xla"), is_causal=True
        )
