"""Training loops: modules, losses, optimizers, autocast, and torch's two ways to compile."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - its name everywhere
import torch_xla
import torch_xla.core.xla_model as xm
from torch import nn
from torch_xla.amp import syncfree

from .compare import assert_trains_alike, train


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 4))


def cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 3, stride=2, padding=1),
        nn.GELU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 4),
    )


def transformer() -> nn.Module:
    layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
    return nn.Sequential(layer, nn.Linear(32, 4))


class Lstm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(8, 16, 2, batch_first=True)
        self.linear = nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(self.lstm(x)[0][:, -1])


def embedding() -> nn.Module:
    return nn.Sequential(nn.Embedding(10, 8, padding_idx=0), nn.Flatten(), nn.Linear(24, 4))


def _random(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def _classes(*shape: int, count: int = 4) -> torch.Tensor:
    return torch.randint(count, shape, generator=torch.Generator().manual_seed(1))


def sgd(parameters):
    return torch.optim.SGD(parameters, 0.1, momentum=0.9, weight_decay=0.01)


def adam(parameters):
    return torch.optim.Adam(parameters, 0.01)


MODELS = {
    "mlp": (mlp, _random(16, 20), _random(16, 4), F.mse_loss),
    "cnn": (cnn, _random(4, 3, 16, 16), _classes(4), F.cross_entropy),
    "transformer": (transformer, _random(2, 8, 32), _random(2, 8, 4), F.mse_loss),
    "lstm": (Lstm, _random(4, 6, 8), _random(4, 4), F.smooth_l1_loss),
    "embedding": (embedding, _classes(5, 3, count=10), _random(5, 4), F.mse_loss),
}


@pytest.mark.parametrize("name", MODELS)
def test_models(name):
    """SGD, whose steps are continuous in the gradients, so that the tolerance stays one of rounding."""
    make_model, x, y, loss = MODELS[name]
    assert_trains_alike(make_model, sgd, x, y, loss)


OPTIMIZERS = {
    "Adam": adam,
    "AdamW amsgrad": lambda p: torch.optim.AdamW(p, 0.01, amsgrad=True),
    "RMSprop": lambda p: torch.optim.RMSprop(p, 0.01, momentum=0.9),
    "Adagrad": lambda p: torch.optim.Adagrad(p, 0.01),
    "SGD nesterov": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, nesterov=True),
    "foreach": lambda p: torch.optim.Adam(p, 0.01, foreach=True),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers(name):
    _, x, y, loss = MODELS["mlp"]
    assert_trains_alike(mlp, OPTIMIZERS[name], x, y, loss, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW"])
def test_syncfree_optimizers(name):
    """torch_xla's own optimizers step like PyTorch's."""
    options = {"lr": 0.01, "momentum": 0.9} if name == "SGD" else {"lr": 0.01}
    _, x, y, loss = MODELS["mlp"]
    want = train("cpu", mlp, lambda p: getattr(torch.optim, name)(p, **options), x, y, loss)
    got = train("xla", mlp, lambda p: getattr(syncfree, name)(p, **options), x, y, loss)
    assert got.losses[0] == pytest.approx(want.losses[0], rel=1e-5)
    assert got.losses[-1] == pytest.approx(want.losses[-1], rel=1e-2)
    if name != "SGD":  # its momentum starts at zero, PyTorch's at the first gradient
        torch.testing.assert_close(got.parameters, want.parameters, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["mlp", "cnn", "transformer"])
def test_autocast_bf16(name):
    """Within some roundings to bfloat16 of PyTorch's CPU, and not equal to float32."""
    make_model, x, y, loss = MODELS[name]
    more = (make_model, sgd, x, y, loss)
    low = train("xla", *more, autocast=torch.bfloat16)
    want = train("cpu", *more, autocast=torch.bfloat16)
    high = train("xla", *more)
    assert low.losses == pytest.approx(want.losses, rel=0.03)
    assert low.losses != high.losses


def test_autocast_computes_in_bf16():
    x = _random(4, 8).to("xla")
    with torch.autocast("xla", dtype=torch.bfloat16):
        y = x @ x.T
    assert y.dtype == torch.bfloat16
    exact = x.cpu().to(torch.bfloat16).float() @ x.cpu().to(torch.bfloat16).float().T
    torch.testing.assert_close(y.cpu().float(), exact, rtol=2**-8, atol=1e-3)


def test_batch_norm_keeps_statistics():
    x = _random(4, 3, 5, 5) * 2 + 1
    norm = nn.BatchNorm2d(3, momentum=0.3).to("xla")
    y = norm(x.to("xla")).detach().cpu()
    torch.testing.assert_close(y, F.batch_norm(x, None, None, training=True))
    norm(x.to("xla"))
    mean = (1 - 0.7**2) * x.mean((0, 2, 3))
    variance = 0.7**2 + (1 - 0.7**2) * x.var((0, 2, 3))
    torch.testing.assert_close(norm.running_mean.cpu(), mean)
    torch.testing.assert_close(norm.running_var.cpu(), variance)
    assert int(norm.num_batches_tracked) == 2
    norm.eval()
    expected = F.batch_norm(x, mean, variance)
    torch.testing.assert_close(norm(x.to("xla")).detach().cpu(), expected)


def test_gradient_clipping_and_scheduler():
    results = []
    for device in ("cpu", "xla"):
        torch.manual_seed(0)
        model = mlp().to(device)
        optimizer = torch.optim.SGD(model.parameters(), 1.0)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
        for _ in range(3):
            optimizer.zero_grad()
            model(_random(16, 20).to(device)).square().sum().backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), 0.1)
            optimizer.step()
            schedule.step()
        results.append([norm.detach().cpu(), *(p.detach().cpu() for p in model.parameters())])
    torch.testing.assert_close(results[1], results[0], rtol=1e-4, atol=1e-5)


def test_torch_xla_compile_and_step():
    model, x, y = mlp().to("xla"), _random(16, 20).to("xla"), _random(16, 4).to("xla")
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def step():
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    with torch_xla.step():
        first = step()
    compiled = torch_xla.compile(step)
    losses = [float(first.detach()), *(float(compiled().detach()) for _ in range(3))]
    assert losses == sorted(losses, reverse=True)
    assert len(set(losses)) == 4


def test_dynamo_inference():
    model, x = cnn().to("xla").eval(), _random(4, 3, 16, 16).to("xla")
    compiled = torch.compile(model, backend="openxla")
    with torch.no_grad():
        torch.testing.assert_close(compiled(x).cpu(), model(x).cpu())
        torch.testing.assert_close(compiled(x).cpu(), model(x).cpu())


def test_dynamo_training():
    results = []
    for device in ("cpu", "xla"):
        torch.manual_seed(0)
        model = mlp().to(device)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        x, y = _random(16, 20).to(device), _random(16, 4).to(device)

        def step(x, y, model=model):
            loss = F.mse_loss(model(x), y)
            loss.backward()
            return loss

        if device == "xla":
            step = torch.compile(step, backend="openxla")
        losses = []
        for _ in range(3):
            optimizer.zero_grad()
            losses.append(float(step(x, y).detach()))
            optimizer.step()
        results.append(losses)
    assert results[1] == pytest.approx(results[0], rel=1e-5)


def test_save_and_load(tmp_path):
    model = cnn().to("xla")
    model(_random(4, 3, 16, 16).to("xla"))
    path = tmp_path / "model.pt"
    xm.save(model.state_dict(), path)
    state = torch.load(path)
    assert {v.device.type for v in state.values()} == {"cpu"}
    loaded = cnn()
    loaded.load_state_dict(state)
    loaded = loaded.to("xla")
    for name, value in model.state_dict().items():
        assert torch.equal(loaded.state_dict()[name].cpu(), value.cpu())


def test_gradients_accumulate_over_steps():
    """A gradient is a view in torch_xla, and what it is a view of a result too, which the next step may read."""
    x, y = _random(64, 96), _random(64, 112)

    def gradients(device: str) -> list[torch.Tensor]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(96, 128), nn.ReLU(), nn.Linear(128, 112)).to(device)
        optimizer = sgd(model.parameters())
        for step in range(5):
            if step % 3 == 0:
                optimizer.zero_grad()
            F.mse_loss(model(x.to(device)), y.to(device)).backward()
            if step % 3 == 2:
                optimizer.step()
            torch_xla.sync()
        return [a.cpu() for p in model.parameters() for a in (p.grad.t(), p.grad, p.detach())]

    for got, want in zip(gradients("xla"), gradients("cpu"), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-6)


class Tied(nn.Module):
    """An embedding whose weight is the output layer's too, as a language model has it."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(5, 3)
        self.output = nn.Linear(3, 5, bias=False)
        self.output.weight = self.embedding.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.output(self.embedding(x))


def test_tied_weights_stay_tied_where_parameters_are_swapped():
    """The documentation names the switch. The optimizer, too, has the parameters from before ``.to``."""
    torch.manual_seed(0)
    made, x = Tied(), torch.tensor([[1, 2, 0], [4, 4, 1]])
    found = []
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        for device in ("xla", "cpu"):
            model = copy.deepcopy(made)
            optimizer = sgd(model.parameters())
            model.to(device)
            assert model.output.weight is model.embedding.weight
            for _ in range(3):
                optimizer.zero_grad()
                nn.functional.cross_entropy(
                    model(x.to(device)).flatten(0, 1), x.to(device).flatten()
                ).backward()
                optimizer.step()
                torch_xla.sync()
            found.append(model.output.weight.detach().cpu())
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)
    assert not torch.equal(found[1], made.output.weight)
    torch.testing.assert_close(*found, rtol=1e-5, atol=1e-6)
