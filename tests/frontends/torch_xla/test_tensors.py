"""Tensors one by one: types, views, in-place operations, dynamic results, random numbers, transfers, memory."""

from __future__ import annotations

import time

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - its name everywhere
import torch_xla
import torch_xla.core.xla_model as xm
from torch_xla.debug import metrics
from tripont.core import _tripont

TYPES = [
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16,
    torch.float32, torch.float64, torch.complex64, torch.complex128,
]  # fmt: skip


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_transfers_keep_type_and_values(dtype):
    x = torch.tensor([[0, 1, 2], [3, 100, 7]]).to(dtype)
    y = x.to("xla")
    assert y.dtype == dtype
    assert torch.equal(y.cpu(), x)
    assert torch.equal(y.t().cpu(), x.t())
    assert torch.equal((y + y).cpu(), x + x)


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.t(),
        lambda x: x[:, ::2],
        lambda x: x[1:, 1:],
        lambda x: x.flip(0),
        lambda x: x.unsqueeze(0).expand(3, -1, -1),
        lambda x: x.permute(1, 0)[::3],
        lambda x: x[:0],
        lambda x: x[2, 3],
    ],
    ids=["transposed", "strided", "offset", "flipped", "expanded", "columns", "empty", "scalar"],
)
def test_transfer_of_views(view):
    x = torch.arange(24.0).reshape(4, 6)
    assert torch.equal(view(x).to("xla").cpu(), view(x))
    assert torch.equal(view(x.to("xla")).cpu(), view(x))


def test_float64_scalars_and_large_integers():
    x = torch.arange(5, dtype=torch.float64) / 3
    y = x.to("xla") * 3.7 + torch.tensor(1e-17, dtype=torch.float64, device="xla")
    assert y.dtype == torch.float64
    torch.testing.assert_close(y.cpu(), x * 3.7 + 1e-17, rtol=1e-15, atol=0)
    z = torch.arange(5, device="xla") * 2**40 + 7
    assert z.cpu().tolist() == [n * 2**40 + 7 for n in range(5)]
    assert (torch.tensor(2**62 + 1, device="xla") - 2**62).item() == 1


def test_in_place_on_views():
    results = []
    for device in ("cpu", "xla"):
        a = torch.zeros(4, 5, device=device)
        a[1] = 1
        a[:, 2] += 3
        a.view(-1)[0] = 9
        a.t()[4, 0] = 7
        rows = a[1:3]
        rows.mul_(2).clamp_(max=7)
        a[a > 6] = -1
        a.index_put_((torch.tensor([0, 3], device=device),), torch.tensor(5.0, device=device))
        results.append(a.cpu())
    assert torch.equal(results[1], results[0])


def test_dynamic_results():
    x = torch.tensor([[1.0, 0, 2], [0, 3, 0]])
    y = x.to("xla")
    assert torch.equal(torch.nonzero(y).cpu(), torch.nonzero(x))
    assert torch.equal(y[y > 1].cpu(), x[x > 1])
    assert torch.equal(torch.masked_select(y, y > 0).cpu(), torch.masked_select(x, x > 0))
    assert torch.equal(torch.unique(y).cpu(), torch.unique(x))
    assert torch.nonzero(torch.zeros(3, device="xla")).shape[0] == 0


OF_DYNAMIC_RESULTS = {
    "last": lambda x, p: p[-2:],
    "every other": lambda x, p: p[::2],
    "flip": lambda x, p: p.flip(0),
    "roll": lambda x, p: p.roll(-1, 0) if len(p) else p,  # torch_xla ends the process for none
    "cat": lambda x, p: torch.cat([p, x, p]),
    "outer": lambda x, p: p[:, None] * p[None],
    "repeat": lambda x, p: p.repeat_interleave(2),
    "sort": lambda x, p: p.sort(stable=True),
    "softmax": lambda x, p: p.softmax(0),
    "mean": lambda x, p: p.mean(),
    "sum": lambda x, p: (p.sum(), torch.zeros_like(p), torch.ones_like(p).sum()),
    "mask": lambda x, p: p[p > 1],
    "unique": lambda x, p: torch.unique(p, return_inverse=True, return_counts=True),
    "gather": lambda x, p: x[torch.nonzero(x)[:, 0]],
    "scatter": lambda x, p: torch.zeros_like(x).index_put((torch.nonzero(x)[:, 0],), p * 2),
    "masked_scatter": lambda x, p: torch.zeros_like(x).masked_scatter(x > 0, p),
    "diagonal": lambda x, p: torch.diag(p),
    "one_hot": lambda x, p: torch.nn.functional.one_hot(p.long(), 5),
}


@pytest.mark.parametrize("name", OF_DYNAMIC_RESULTS)
def test_what_follows_on_dynamic_results(name):
    for values in ([3.0, 0, 1, 0, 2, 3, 1], [2.0, 0, 0, 2, 0, 0, 0], [0.0] * 7):
        x = torch.tensor(values)
        wanted, actual = (
            torch.utils._pytree.tree_leaves(OF_DYNAMIC_RESULTS[name](a, a[a > 0]))
            for a in (x, x.to("xla"))
        )
        for a, w in zip(actual, wanted, strict=True):
            torch.testing.assert_close(a.cpu(), w, equal_nan=True)


def test_indexing_by_tensors():
    x = torch.arange(60.0).reshape(3, 4, 5)
    i, j = torch.tensor([2, 0, -1]), torch.tensor([[1], [3]])
    y, k, m = x.to("xla"), i.to("xla"), j.to("xla")
    assert torch.equal(y[k].cpu(), x[i])
    assert torch.equal(y[k, m].cpu(), x[i, j])
    assert torch.equal(y[:, m, k].cpu(), x[:, j, i])
    assert torch.equal(
        y.take_along_dim(k[:, None, None], 0).cpu(), x.take_along_dim(i[:, None, None] % 3, 0)
    )


def _draws():
    return {
        "dropout": F.dropout(torch.ones(1000, device="xla"), 0.3),
        "rand": torch.rand(1000, device="xla"),
        "randn": torch.randn(1000, device="xla"),
        "bernoulli": torch.bernoulli(torch.full((1000,), 0.2, device="xla")),
        "randint": torch.randint(0, 10, (1000,), device="xla"),
        "randperm": torch.randperm(100, device="xla"),
        "multinomial": torch.multinomial(torch.arange(5.0, device="xla"), 3),
        "exponential": torch.empty(1000, device="xla").exponential_(2.0),
        "normal": torch.empty(1000, device="xla").normal_(3.0, 2.0),
    }


def test_random_numbers_are_reproducible():
    def draw(seed):
        torch.manual_seed(seed)
        return {name: value.cpu() for name, value in _draws().items()}

    first, again, other = draw(5), draw(5), draw(6)
    for name, value in first.items():
        assert torch.equal(again[name], value), name
        assert not torch.equal(other[name], value), name


def test_two_draws_differ():
    torch.manual_seed(0)
    a, b = torch.rand(100, device="xla"), torch.rand(100, device="xla")
    assert not torch.equal(a.cpu(), b.cpu())
    torch_xla.sync()
    assert not torch.equal(torch.rand(100, device="xla").cpu(), a.cpu())


def test_random_numbers_have_their_distribution():
    """Means of 1,000 draws within five standard errors."""
    torch.manual_seed(1)
    draws = {name: value.cpu() for name, value in _draws().items()}
    kept = draws["dropout"]
    assert kept.unique().tolist() == [0.0, pytest.approx(1 / 0.7)]
    assert abs((kept == 0).float().mean() - 0.3) < 5 * (0.21 / 1000) ** 0.5
    assert abs(draws["rand"].mean() - 0.5) < 5 * (1 / 12000) ** 0.5
    assert 0 <= draws["rand"].min() <= draws["rand"].max() < 1
    assert abs(draws["randn"].mean()) < 5 * 0.001**0.5
    assert abs(draws["randn"].std() - 1) < 5 * 0.0005**0.5
    assert abs(draws["bernoulli"].mean() - 0.2) < 5 * (0.16 / 1000) ** 0.5
    assert set(draws["randint"].tolist()) == set(range(10))
    assert sorted(draws["randperm"].tolist()) == list(range(100))
    assert len(set(draws["multinomial"].tolist())) == 3
    assert 0 not in draws["multinomial"].tolist()
    assert abs(draws["exponential"].mean() - 0.5) < 5 * 0.5 * 0.001**0.5
    assert abs(draws["normal"].mean() - 3) < 5 * 2 * 0.001**0.5


def test_rng_state():
    torch_xla.manual_seed(7)
    state = xm.get_rng_state()
    a = torch.rand(10, device="xla").cpu()
    xm.set_rng_state(state)
    assert torch.equal(torch.rand(10, device="xla").cpu(), a)


def test_metrics_and_memory_are_reported():
    metrics.clear_all()
    x = torch.ones(1 << 18).to("xla")
    torch_xla.sync(wait=True)
    xm.wait_device_ops()  # the tensors of earlier tests have gone
    before = xm.get_memory_info("xla:0")
    y = x * 3 + x.sum()
    torch_xla.sync(wait=True)
    xm.wait_device_ops()  # the time of the run is recorded when it ends
    after = xm.get_memory_info("xla:0")
    assert after["bytes_used"] - before["bytes_used"] >= 1 << 20
    assert after["bytes_limit"] >= after["peak_bytes_used"] >= after["bytes_used"]
    assert y[0].item() == 3 + (1 << 18)
    report = metrics.metrics_report()
    for name in ("CompileTime", "ExecuteTime", "TransferToDeviceTime"):
        assert f"Metric: {name}" in report


def test_no_operator_falls_back_to_the_cpu_silently():
    """A counter ``aten::name`` counts what torch_xla runs on the CPU; ordinary layers have none."""
    metrics.clear_counters()
    x = torch.randn(2, 3, 8, 8, device="xla", requires_grad=True)
    layer = torch.nn.Conv2d(3, 4, 3).to("xla")
    F.softmax(layer(x).relu().flatten(1), 1).pow(2).sum().backward()
    torch_xla.sync()
    assert not [name for name in metrics.counter_names() if name.startswith("aten::")]


def test_step_reuses_the_parameters_memory():
    """torch_xla gives up a tensor that an in-place operation replaces; its memory is the result's."""
    x = torch.zeros(1 << 20, device="xla")
    torch_xla.sync()
    addresses = []
    for _ in range(3):
        x += 1
        torch_xla.sync(wait=True)
        addresses.append(torch_xla._XLAC._unsafe_buffer_pointer(x))
    assert len(set(addresses)) == 1
    assert x[5].item() == 3


def test_training_steps_do_not_pile_up_memory():
    model = torch.nn.Linear(1024, 1024).to("xla")
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    x = torch.randn(8, 1024).to("xla")
    (device,) = _tripont.Client().devices

    def bytes_after_steps(count, limit=0):
        for _ in range(count):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
            torch_xla.sync(wait=True)
        # torch_xla's threads let go of the last step's tensors a moment after it is done.
        xm.wait_device_ops()
        used, end = [], time.monotonic() + (60 if limit else 1)
        while time.monotonic() < end and min(used, default=limit + 1) > limit:
            used.append(device.memory_stats()["bytes_in_use"])
            time.sleep(0.01)
        return min(used)

    first = bytes_after_steps(3)
    # A weight, its momentum and its gradient may stand in blocks that earlier tests left and that
    # are up to a quarter larger than the arrays. The smallest array that each step makes, the input
    # times the weight, has 32 KB: 200 of them are more than that.
    spare = 3 * model.weight.nbytes // 4
    assert 200 * x.nbytes > spare
    assert bytes_after_steps(200, first + spare) <= first + spare


@pytest.mark.parametrize(
    ("attempt", "words"),
    [
        (lambda x: x @ x[:2, :1], "2"),
        (lambda x: torch.linalg.cholesky(x[:, :1].expand(4, 4) * 0 - 1), "cholesky|positive"),
    ],
    ids=["shapes", "not positive definite"],
)
def test_bad_input_is_an_error_and_the_device_goes_on(attempt, words):
    x = torch.randn(4, 4, device="xla")
    with pytest.raises(RuntimeError, match=words):
        attempt(x).cpu()
    assert torch.equal((x - x).cpu(), torch.zeros(4, 4))
