"""PyTorch's quantization (PT2E) on the device: PyTorch/XLA writes it as custom calls of StableHLO's operations."""

from __future__ import annotations

import pytest
import torch
import torch.ao.quantization.fx._decomposed  # registers the operators
import torch_xla

OPERATORS = torch.ops.quantized_decomposed


@pytest.mark.parametrize(
    ("dtype", "zero_point", "low", "high"),
    [
        (torch.int8, 2, -128, 127),
        (torch.int8, -100, -127, 127),
        (torch.uint8, 100, 0, 255),
        (torch.int32, 0, -(2**31), 2**31 - 1),
    ],
    ids=str,
)
def test_per_tensor(dtype, zero_point, low, high):
    x = torch.randn(3, 40, generator=torch.Generator().manual_seed(0)) * 30
    given = (0.4, zero_point, low, high, dtype)
    stored = OPERATORS.quantize_per_tensor(x, *given)
    expected = OPERATORS.dequantize_per_tensor(stored, *given)
    on_device = OPERATORS.quantize_per_tensor(x.to("xla"), *given)
    result = OPERATORS.dequantize_per_tensor(on_device, *given)
    assert "mhlo.uniform_quantize" in torch_xla._XLAC._get_xla_tensors_hlo([result])
    assert torch.equal(result.cpu(), expected)
    assert torch.equal(on_device.cpu().to(dtype), stored)


def test_per_channel():
    x = torch.randn(2, 3, 4, 5, generator=torch.Generator().manual_seed(1)) * 30
    scale, zero_point = torch.tensor([3.2, 5.3, 0.1, 10.0]), torch.tensor([1, 2, -1, -2])
    given = (2, -128, 127, torch.int8)
    stored = OPERATORS.quantize_per_channel(x, scale, zero_point, *given)
    expected = OPERATORS.dequantize_per_channel(stored, scale, zero_point, *given)
    on_device = OPERATORS.quantize_per_channel(
        x.to("xla"), scale.to("xla"), zero_point.to("xla"), *given
    )
    result = OPERATORS.dequantize_per_channel(
        on_device, scale.to("xla"), zero_point.to("xla"), *given
    )
    assert torch.equal(result.cpu(), expected)


def test_a_linear_layer_with_quantized_weights():
    """Weights stored in 8 bits and widened inside the program, as an exported model has them."""
    layer = torch.nn.Linear(16, 8)
    x = torch.randn(4, 16)
    scale = float(layer.weight.detach().abs().max() / 127)
    given = (scale, 0, -127, 127, torch.int8)

    def forward(x, weight, bias):
        stored = OPERATORS.quantize_per_tensor(weight, *given)
        return torch.nn.functional.linear(x, OPERATORS.dequantize_per_tensor(stored, *given), bias)

    parameters = [p.detach() for p in (layer.weight, layer.bias)]
    expected = forward(x, *parameters)
    result = forward(x.to("xla"), *(p.to("xla") for p in parameters))
    torch.testing.assert_close(result.cpu(), expected)
