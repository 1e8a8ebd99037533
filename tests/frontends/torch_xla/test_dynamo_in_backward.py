"""``torch.compile`` leaves alone what ``backward()`` calls in a compiled function."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch_xla
import torch_xla._dynamo.dynamo_bridge as bridge
from functorch.compile import aot_module_simplified, make_boxed_compiler  # type: ignore[import-untyped]
from torch import nn

MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "linear": (lambda: nn.Linear(10, 5), (2, 10)),
    "pooling": (
        lambda: nn.Sequential(nn.Conv2d(3, 6, 3, stride=2), nn.MaxPool2d(3, stride=2)),
        (2, 3, 10, 10),
    ),
    "sampling": (lambda: nn.Upsample(scale_factor=2), (1, 1, 5)),
}


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()


def _gradients(model: nn.Module, x: torch.Tensor) -> list[Any]:
    loss = model(x).mean()
    loss.backward()
    return [x.grad, *(p.grad for p in model.parameters())]


def _example(name: str) -> tuple[nn.Module, torch.Tensor]:
    torch.manual_seed(0)
    make, shape = MODELS[name]
    return make(), torch.randn(shape)


@pytest.mark.parametrize("name", MODELS)
def test_only_functions_of_the_user_are_compiled(name: str) -> None:
    """``backward()`` leaves the compiled function, and Dynamo sees each Python frame that begins meanwhile."""
    compiled: dict[str, list[list[str]]] = {}
    for device in ("cpu", "xla"):
        model, x = _example(name)
        model, x = model.to(device), x.to(device).requires_grad_()
        programs = compiled.setdefault(device, [])

        def backend(graph: Any, inputs: Any, programs: list[list[str]] = programs) -> Any:
            programs.append([node.op for node in graph.graph.nodes])
            return graph.forward

        torch._dynamo.optimize(backend)(_gradients)(model, x)
        torch_xla.sync()
    assert compiled["cpu"]
    assert compiled["xla"] == compiled["cpu"]


@pytest.mark.parametrize("name", MODELS)
def test_training_through_the_bridge(name: str) -> None:
    """The bridge records a program while Dynamo is at work, and computes it by its hash."""

    def compiler(graph: Any, inputs: Any) -> Any:
        @make_boxed_compiler
        @torch._dynamo.disable
        def forward(graph: Any, inputs: Any) -> Any:
            found = None

            def run(*operands: Any) -> Any:
                nonlocal found
                if found is None:
                    found = bridge.extract_compiled_graph(graph, operands)
                return found(*operands)

            return run

        return aot_module_simplified(graph, inputs, fw_compiler=forward)

    model, x = _example(name)
    expected = _gradients(copy.deepcopy(model), x.clone().requires_grad_())
    model, x = model.to("xla"), x.to("xla").requires_grad_()
    found = torch._dynamo.optimize(compiler)(_gradients)(model, x)
    torch.testing.assert_close([g.cpu() for g in found], expected, rtol=1e-4, atol=1e-5)
