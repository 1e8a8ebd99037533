"""PyTorch on JAX on tripont: a torch.nn network trained by JAX's jit and grad, through torchax.

The network, its layers and its loss are PyTorch's. torchax runs their operators as JAX operations, so that the whole
training step is one program on JAX's default device, which is ``xpu`` once tripont is installed.
"""

from __future__ import annotations

import argparse

import jax
import torch
import torch.nn.functional as F  # noqa: N812 - its name everywhere
import torchax
from sklearn.datasets import load_digits
from torch import nn
from torchax import interop

LEARNING_RATE = 0.03


def make_model() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1, stride=2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32 * 4 * 4, 10),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=60)
    epochs = parser.parse_args().epochs

    torch.manual_seed(0)
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16
    labels = torch.tensor(digits.target)
    order = torch.randperm(len(images))
    train, test = order[:1400], order[1400:]

    model = make_model()
    with torchax.default_env():
        model = model.to("jax")
        weights = dict(model.named_parameters())
        x, y = images[train].to("jax"), labels[train].to("jax")
        x_test, y_test = images[test].to("jax"), labels[test].to("jax")

        def loss_of(weights: dict[str, torch.Tensor]) -> torch.Tensor:
            return F.cross_entropy(torch.func.functional_call(model, weights, x), y)

        loss_and_gradients = interop.jax_value_and_grad(loss_of)

        @interop.jax_jit
        def step(weights, momenta):
            loss, gradients = loss_and_gradients(weights)
            momenta = {name: 0.9 * momenta[name] + gradients[name] for name in weights}
            weights = {name: weights[name] - LEARNING_RATE * momenta[name] for name in weights}
            return loss, weights, momenta

        momenta = {name: torch.zeros_like(weight) for name, weight in weights.items()}
        for epoch in range(epochs):
            loss, weights, momenta = step(weights, momenta)
            if epoch % 10 == 0 or epoch == epochs - 1:
                print(f"epoch {epoch:3}: loss {float(loss.jax()):.4f}")
        guess = torch.func.functional_call(model, weights, x_test).argmax(1)
        accuracy = (guess == y_test).float().mean()

    (device,) = next(iter(weights.values())).jax().devices()
    assert device in jax.devices()
    print(f"trained on {device.platform}, accuracy on the test images {float(accuracy.jax()):.3f}")


if __name__ == "__main__":
    main()
