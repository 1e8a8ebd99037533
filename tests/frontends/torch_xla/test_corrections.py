"""Operations that torch_xla alone computes wrongly or refuses: values and gradients as on PyTorch's CPU."""

from __future__ import annotations

import copy

import pytest
import torch
from torch.nn import functional as F  # noqa: N812  # as PyTorch's users call it
from torch.nn.utils import rnn

from .compare import assert_as_on_the_cpu

INFINITY = float("inf")
# The functions are smooth enough for float32 to agree to a few ulps of the largest number, which is below 16.
TOLERANCE = {"rtol": 1e-5, "atol": 1e-5}


def square(x: torch.Tensor) -> torch.Tensor:
    return x[0, :, :4, 0] @ x[1, :, :4, 0].T + 3 * torch.eye(4, device=x.device)


CASES = {
    "elu": lambda x: F.elu(x, 1.5),
    "celu": lambda x: F.celu(x, 0.7),
    "selu": F.selu,
    "pixel_shuffle": lambda x: F.pixel_shuffle(x, 1).sum() * F.pixel_shuffle(x, 2),
    "pixel_unshuffle": lambda x: F.pixel_unshuffle(x, 1).sum() * F.pixel_unshuffle(x, 3),
    "amax": lambda x: x.amax() * x.amax(2, keepdim=True),
    "amin": lambda x: torch.amin(x, keepdim=True) * torch.amin(x, (0, 3)),
    "amax of a number": lambda x: x[0, 0, 0, 0].amax(0, True),
    "clamp": lambda x: x[..., :1].clamp_max(x.detach()[0, 0]).clamp_min(-x.detach()[0, 0, 0]),
    "logit": lambda x: x.sigmoid().mul(1.2).sub(0.1).logit(0.01),
    "maximum norm": lambda x: (
        x.norm(INFINITY) + x.norm(-INFINITY, 1).sum(1) + x.norm(INFINITY, (1, 2))
    ),
    "gradient of a maximum norm": lambda x: torch.linalg.vector_norm(x, INFINITY),
    "sum over no dimensions": lambda x: (x * x).sum(()) + x.sum((), True).exp().log(),
    "other norms": lambda x: x.norm() + x.norm(3, 1, True) + x.norm(1, dtype=torch.float64),
    "normalize": lambda x: F.normalize(x, INFINITY),
    "diagonals of other dimensions": lambda x: (
        x.diagonal(2, 0, 2) + x.diagonal(-1, 2, 1)[..., :1, :4].sum()
    ),
    "diagonals of slices": lambda x: (
        x[:, 1:].diagonal(1, 0, 1) + x.mT[:, :, 2:5].diagonal(-1, 2, 3)[:1, :3].sum()
    ),
    "slogdet": lambda x: torch.linalg.slogdet(square(x))[1],
    "logdet": lambda x: torch.logdet(square(x) @ square(x).T),
}


def values_and_gradients(function, device: str) -> list[torch.Tensor]:
    torch.manual_seed(0)
    x = (2 * torch.randn(2, 4, 6, 9)).to(device).requires_grad_()
    result = function(x)
    (
        result * torch.arange(1, result.numel() + 1, device=device).reshape(result.shape) / 50
    ).sum().backward()
    return [result.detach().cpu(), x.grad.cpu()]


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name):
    for got, want in zip(
        *(values_and_gradients(CASES[name], d) for d in ("xla", "cpu")), strict=True
    ):
        torch.testing.assert_close(got, want, **TOLERANCE)


# Where these functions change their direction, and what no bound is.
KINKS = {
    "clamp from below": lambda x: x.clamp(min=-1),
    "clamp from above": lambda x: x.clamp_max(1),
    "clamp to infinity": lambda x: x.clamp(-3, INFINITY).clamp_min(-1),
    "hardshrink": lambda x: F.hardshrink(x, 1),
    "hardsigmoid": F.hardsigmoid,
    "hardswish": F.hardswish,
    "hardtanh": F.hardtanh,
    "logsigmoid": F.logsigmoid,
    "relu6": F.relu6,
    "softshrink": lambda x: F.softshrink(x, 1),
    "threshold": lambda x: F.threshold(x, 1, 5),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", KINKS)
def test_kinks_and_numbers_that_are_none(name, dtype):
    points = torch.tensor([-INFINITY, -3, -1, -0.5, -0.0, 0, 1, 2, 3, 6, 7, INFINITY], dtype=dtype)
    found = []
    for device in ("xla", "cpu"):
        x = points.to(device).requires_grad_()
        result = KINKS[name](x)
        result.backward(torch.arange(1, 13, device=device).to(dtype))
        nothing = KINKS[name](torch.tensor([float("nan")] * 9, dtype=dtype, device=device))
        found.append([t.cpu() for t in (result.detach(), x.grad, nothing)])
    for got, want in zip(*found, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-6, atol=0, equal_nan=True)


def test_clamp_of_integers():
    x = torch.tensor([-(2**31), 0, 2**31 - 1], dtype=torch.int32)
    for bounds in ({"min": -1}, {"max": 1}, {"min": -1, "max": 1}):
        assert torch.equal(x.to("xla").clamp(**bounds).cpu(), x.clamp(**bounds))


@pytest.mark.parametrize(
    "part", [slice(-20, None), slice(None, -20), slice(-20, -3, 2), slice(20, 30), slice(-30, -20)]
)
def test_slices_that_begin_before_the_first_element(part):
    """A sliding window of a cache that is not full yet is such a slice: ``keys[:, :, -window:]``."""
    found = []
    for device in ("xla", "cpu"):
        x = torch.arange(22.0).reshape(2, 11).to(device).requires_grad_()
        (x[:, part] * x[:, part]).sum().backward()
        written = torch.zeros(2, 11, device=device)
        written[:, part] = 1
        pieces = [x[:, part].detach(), x.grad, written]
        pieces.append(
            torch.slice_scatter(written, x[:, part] * 2, 1, part.start, part.stop, part.step or 1)
        )
        found.append([t.detach().cpu() for t in pieces])
    for got, want in zip(*found, strict=True):
        assert torch.equal(got, want)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_both_gradients_of_a_smooth_loss(reduction):
    torch.manual_seed(0)
    numbers = torch.randn(2, 40)
    found = []
    for device in ("xla", "cpu"):
        x, target = (t.to(device).requires_grad_() for t in numbers)
        loss = F.smooth_l1_loss(x, target, reduction=reduction, beta=0.5)
        (loss * loss).sum().backward()
        found.append([t.cpu() for t in (loss.detach(), x.grad, target.grad)])
    for got, want in zip(*found, strict=True):
        torch.testing.assert_close(got, want, **TOLERANCE)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("ignored", [-100, 2])
def test_the_loss_of_one_sample(reduction, ignored):
    """It ends the process without the correction."""
    x, weight = torch.tensor([0.5, -1.0, 2.0, 0.1]), torch.tensor([1.0, 2.0, 0.5, 3.0])
    found = []
    for device in ("xla", "cpu"):
        logits = x.to(device).requires_grad_()
        target = torch.tensor(2).to(device)
        losses = [
            F.cross_entropy(logits, target, w, ignore_index=ignored, reduction=reduction)
            for w in (None, weight.to(device))
        ]
        (3 * losses[0] + losses[1]).backward()
        found.append([t.detach().cpu() for t in (*losses, logits.grad)])
    for got, want in zip(*found, strict=True):
        torch.testing.assert_close(got, want, equal_nan=True, **TOLERANCE)


@pytest.mark.parametrize("dtype", [torch.int8, torch.int32, torch.int64])
def test_integers_are_shifted_with_their_sign(dtype):
    x = torch.tensor([-128, -8, -1, 0, 7, 127], dtype=dtype)
    for amount in (0, 1, 7):
        assert torch.equal((x.to("xla") >> amount).cpu(), x >> amount)
    amounts = torch.tensor([1, 2, 3, 4, 0, 6], dtype=dtype)
    assert torch.equal((x.to("xla") >> amounts.to("xla")).cpu(), x >> amounts)
    shifted, on_cpu = x.to("xla"), x.clone()
    shifted >>= 2
    on_cpu >>= 2
    assert torch.equal(shifted.cpu(), on_cpu)


def test_numbers_of_elements_are_integers():
    x = torch.tensor([[0.0, 1.0, float("nan")], [0.0, 0.0, 2.0]])
    for dim in (None, 1, (0, 1)):
        got, want = (torch.count_nonzero(x.to(d), dim).cpu() for d in ("xla", "cpu"))
        assert got.dtype == torch.int64
        assert torch.equal(got, want)


@pytest.mark.parametrize("kind", ["BatchNorm1d", "BatchNorm2d", "BatchNorm3d"])
@pytest.mark.parametrize("affine", [True, False])
def test_gradients_through_a_batch_norm_that_is_evaluated(kind, affine):
    """As in fine tuning with frozen statistics."""
    torch.manual_seed(0)
    norm = getattr(torch.nn, kind)(5, affine=affine)
    norm.running_mean.uniform_(-1, 1)
    norm.running_var.uniform_(0.5, 2)
    norm.eval()
    x = torch.randn(3, 5, *(4,) * int(kind[-2]))
    found = []
    for device in ("xla", "cpu"):
        norm.zero_grad()
        on_device = x.to(device).requires_grad_()
        result = norm.to(device)(on_device)
        (result**2).sum().backward()
        gradients = [p.grad for p in (on_device, *norm.parameters())]
        found.append([t.detach().cpu() for t in (result, *gradients, *norm.buffers())])
    for got, want in zip(*found, strict=True):
        torch.testing.assert_close(got, want, **TOLERANCE)


@pytest.mark.parametrize("momentum", [0.1, None])
def test_a_running_variance_is_that_of_a_sample(momentum):
    torch.manual_seed(0)
    batches = 3 * torch.randn(4, 6, 5) + 1
    found = []
    for device in ("xla", "cpu"):
        norm = torch.nn.BatchNorm1d(5, momentum=momentum).to(device)
        for batch in batches:
            norm(batch.to(device)).square().sum().backward()
        found.append([t.detach().cpu() for t in (*norm.buffers(), norm.weight.grad)])
    for got, want in zip(*found, strict=True):
        torch.testing.assert_close(got, want, **TOLERANCE)


@pytest.mark.parametrize("count", [1, 6])
def test_inference_mode(count):
    """Its tensors have no gradients' key."""
    torch.manual_seed(0)
    batch = torch.randn(count, 5, 3)
    found = []
    for device in ("xla", "cpu"):
        norm = torch.nn.BatchNorm1d(5).to(device)
        with torch.inference_mode():
            x = batch.to(device)
            found.append([t.cpu() for t in (norm(x), *norm.buffers(), x.amax(), x.amin(()))])
    for got, want in zip(*found, strict=True):
        torch.testing.assert_close(got, want, **TOLERANCE)


LENGTHS = {"in order": [4, 2, 1], "sorted first": [1, 4, 2], "equal": [4, 4, 4]}


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("lengths", LENGTHS)
def test_packed_sequences(lengths, batch_first):
    """torch_xla packs the first elements in place of the later ones, and nothing can read how many there are."""
    torch.manual_seed(0)
    lstm = torch.nn.LSTM(2, 3, batch_first=batch_first)
    batch = torch.randn(3, 4, 2) if batch_first else torch.randn(4, 3, 2)
    found = []
    for device in ("xla", "cpu"):
        on_device = copy.deepcopy(lstm).to(device)
        x = batch.to(device).requires_grad_()
        packed = rnn.pack_padded_sequence(
            x, torch.tensor(LENGTHS[lengths]), batch_first, enforce_sorted=lengths != "sorted first"
        )
        states, (last, _) = on_device(packed)
        padded, sizes = rnn.pad_packed_sequence(states, batch_first)
        ((packed.data**2).sum() + (padded**2).sum() + last.sum()).backward()
        gradients = [p.grad for p in (x, *on_device.parameters())]
        values = [packed.data, packed.batch_sizes, padded, sizes, last, *gradients]
        found.append([t.detach().cpu() for t in values])
    for got, want in zip(*found, strict=True):
        torch.testing.assert_close(got, want, **TOLERANCE)


def test_packed_sequences_in_inference_mode():
    with torch.inference_mode():
        x = torch.arange(12.0).reshape(2, 3, 2).to("xla")
        packed = rnn.pack_sequence([x[0], x[1, :2]])
        assert packed.batch_sizes.tolist() == [2, 2, 1]
        assert packed.data[:, 0].tolist() == [0, 6, 2, 8, 4]
        assert [len(s) for s in rnn.unpack_sequence(packed)] == [3, 2]


STRIDES = {
    "a part of each row": ((2, 2), (4, 1), 1),
    "all of some rows": ((2, 4), (4, 1), 4),
    "columns": ((4, 2), (1, 4), 0),
    "all, transposed": ((4, 3), (1, 4), 0),
    "all, in another shape": ((2, 6), (6, 1), 0),
    "a diagonal": ((3,), (5,), 0),
    "a number": ((), (), 7),
    "nothing": ((0, 2), (2, 1), 3),
    "one row": ((1, 3), (100, 1), 2),
}


@pytest.mark.parametrize("name", STRIDES)
def test_what_is_written_into_a_view_with_strides(name):
    size, stride, offset = STRIDES[name]
    found = []
    for device in ("xla", "cpu"):
        x = torch.arange(12.0, device=device).reshape(3, 4).requires_grad_()
        base = x * 1
        view = base.as_strided(size, stride, offset)
        view.mul_(-2)
        part = torch.as_strided_scatter(base, view.detach() + 1, size, stride, offset)
        (base * base + part).sum().backward()
        found.append([t.detach().cpu() for t in (base, view, part, x.grad)])
    for got, want in zip(*found, strict=True):
        assert torch.equal(got, want)


@pytest.mark.parametrize("count", [2, 6, 9])
def test_masked_scatter_of_any_source(count):
    """XLA refuses torch_xla's program where the source has more elements than the array."""
    x, mask = torch.zeros(2, 3), torch.tensor([[True, False, False], [False, True, False]])
    source = torch.arange(1.0, count + 1)
    found = [
        x.to(d).masked_scatter(mask.to(d), source.to(d)).cpu().tolist() for d in ("xla", "cpu")
    ]
    assert found[0] == found[1]


@pytest.mark.parametrize("shape", [(4,), (3, 1), ()])
@pytest.mark.parametrize("count", [12, 15])
def test_masked_scatter_of_what_is_broadcast(shape, count):
    """The mask has more elements than the tensor: those of the source count against the result's."""
    x = torch.arange(float(torch.Size(shape).numel())).reshape(shape)
    mask, source = torch.ones(3, 4, dtype=torch.bool), 100 + torch.arange(float(count))
    mask[0, 1] = False
    ours, theirs = (
        torch.masked_scatter(x.to(d), mask.to(d), source.to(d)).cpu().tolist()
        for d in ("xla", "cpu")
    )
    assert ours == theirs


def test_masked_scatter_of_a_number():
    for there in (True, False):
        got = torch.tensor(3, device="xla").masked_scatter(
            torch.tensor(there, device="xla"), torch.tensor([7, 8], device="xla")
        )
        assert got.shape == ()
        assert got.item() == (7 if there else 3)


@pytest.mark.parametrize("shape", [(4,), (3, 1), (1, 1), ()])
def test_masked_scatter_of_a_mask_that_is_broadcast(shape):
    x, source = torch.arange(12.0).reshape(3, 4), 100 + torch.arange(12.0)
    mask = torch.arange(torch.Size(shape).numel()).reshape(shape) % 2 == 0
    found = []
    for d in ("xla", "cpu"):
        y = x.clone().to(d)
        result = y.masked_scatter_(mask.to(d), source.to(d))
        assert result is y
        found.append((y.cpu().tolist(), x.to(d).masked_scatter(mask.to(d), source.to(d)).tolist()))
    assert found[0] == found[1]


class Corrected(torch.nn.Module):
    """What has corrections for XLA's devices, on the CPU."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        running = torch.amax(x) + torch.amin(x, 1).sum() + x.amax()
        return self.norm(x) + running + F.batch_norm(x, None, None, training=True)


@pytest.mark.parametrize(
    "made",
    [
        torch.jit.script,
        torch.fx.symbolic_trace,
        lambda module: torch.jit.trace(module, torch.ones(2, 3, 5)),
        lambda module: torch.export.export(module, (torch.ones(2, 3, 5),)).module(),
        lambda module: torch.compile(module, backend="aot_eager", fullgraph=True),
    ],
    ids=["script", "fx", "trace", "export", "compile"],
)
def test_programs_on_the_cpu_are_as_they_were(made):
    """The corrections are kernels of XLA's devices: nobody else meets them."""
    torch.manual_seed(0)
    x = torch.randn(2, 3, 5)
    module = Corrected().train()
    want = copy.deepcopy(module)(x)
    assert torch.equal(made(module)(x), want)


BAD_CALLS = {
    "amax of a list": lambda device: torch.amax([1.0, 2.0]),
    "amax of a dimension that a number has not": lambda device: torch.ones((), device=device).amax(
        1
    ),
    "batch_norm of one dimension": lambda device: F.batch_norm(
        torch.ones(4, device=device, requires_grad=True), *torch.ones(2, 4, device=device)
    ),
    "batch_norm without statistics": lambda device: F.batch_norm(
        torch.ones(2, 4, device=device, requires_grad=True), None, None
    ),
    "fewer lengths than sequences": lambda device: rnn.pack_padded_sequence(
        torch.ones(4, 3, 2, device=device), torch.tensor([4, 2])
    ),
    "a sequence without elements": lambda device: rnn.pack_padded_sequence(
        torch.ones(4, 3, 2, device=device), torch.tensor([4, 2, 0])
    ),
    "lengths that are not in order": lambda device: rnn.pack_padded_sequence(
        torch.ones(4, 3, 2, device=device), torch.tensor([2, 4, 1])
    ),
    "a mask that is larger than what it writes to": lambda device: torch.zeros(
        3, 1, device=device
    ).masked_scatter_(
        torch.ones(3, 4, device=device, dtype=torch.bool), torch.ones(12, device=device)
    ),
    "two targets of one sample": lambda device: F.nll_loss(
        torch.ones(3, device=device), torch.tensor([1, 2], device=device)
    ),
}


@pytest.mark.parametrize("name", BAD_CALLS)
def test_bad_calls_raise_as_on_the_cpu(name):
    """The same exception, or torch_xla's RuntimeError in its place."""
    raised = []
    for device in ("xla", "cpu"):
        with pytest.raises(Exception) as error:  # noqa: PT011  # whichever PyTorch raises
            BAD_CALLS[name](device)
        raised.append(error.type)
    assert raised[0] in (raised[1], RuntimeError)


def test_an_evaluated_batch_norm_keeps_its_dtype():
    norm = torch.nn.BatchNorm1d(5).to("xla").eval()
    x = torch.randn(3, 5, dtype=torch.bfloat16).to("xla").requires_grad_()
    result = norm(x)
    assert result.dtype == torch.bfloat16
    result.sum().backward()
    assert x.grad.dtype == torch.bfloat16


@pytest.mark.parametrize("shape", [(3, 3), (2, 3, 3), (2, 2, 3, 3)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64])
def test_what_inv_ex_tells_of_each_matrix(shape, dtype) -> None:
    a = torch.eye(3, dtype=dtype).expand(shape).clone()
    inverse, info = torch.linalg.inv_ex(a.to("xla"))
    assert torch.equal(inverse.cpu(), a)
    assert torch.equal(info.cpu(), torch.linalg.inv_ex(a).info)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.int32])
@pytest.mark.parametrize("number", [0.1, 0.3, 1, float("nan"), float("inf"), 2.5, True])
def test_comparisons_with_a_number(dtype, number) -> None:
    """The number is rounded to the tensor's dtype, in which 0.1 is the same."""
    x = torch.tensor([0.1, 0.3, 1, 2.5, float("inf") if dtype.is_floating_point else 7]).to(dtype)
    for compare in (torch.eq, torch.ne, torch.lt, torch.le, torch.gt, torch.ge):
        assert torch.equal(compare(x.to("xla"), number).cpu(), compare(x, number)), compare


@pytest.mark.parametrize("weight", [0.3, 0.5, 1.0, 1.5, -0.7, torch.tensor([0.1, 0.5, -1, 1, 1])])
def test_lerp_of_infinities_and_to_the_end(weight) -> None:
    x = torch.tensor([INFINITY, -INFINITY, 1, 2, 1e10])
    end = torch.tensor([1, 2, INFINITY, -INFINITY, 0.1])
    on_device = weight.to("xla") if isinstance(weight, torch.Tensor) else weight
    got = torch.lerp(x.to("xla"), end.to("xla"), on_device).cpu()
    torch.testing.assert_close(got, torch.lerp(x, end, weight), equal_nan=True, **TOLERANCE)
    if not isinstance(weight, float) or weight == 1:
        assert got[-1] == end[-1]


def test_numbers_of_what_is_computed_on_the_cpu() -> None:
    """PyTorch makes a tensor of the polynomial's degree, and a number again for kernels in Python."""
    x = torch.linspace(-1, 1, 5)
    got = torch.special.chebyshev_polynomial_t(x.to("xla"), 3)
    torch.testing.assert_close(got.cpu(), torch.special.chebyshev_polynomial_t(x, 3), **TOLERANCE)


NOTHING = {
    "cumsum": (lambda x: x.cumsum(-1), (5, 0)),
    "cumprod": (lambda x: x.cumprod(0), (0, 2)),
    "repeat": (lambda x: x.repeat(2, 0, 3), (2, 3)),
    "gather": (
        lambda x: x.gather(1, torch.zeros(3, 0, dtype=torch.int64, device=x.device)),
        (3, 0),
    ),
    "gather nothing": (
        lambda x: x.gather(0, torch.zeros(0, 2, dtype=torch.int64, device=x.device)),
        (3, 2),
    ),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.int8])
@pytest.mark.parametrize("name", NOTHING)
def test_results_without_elements(name: str, dtype: torch.dtype) -> None:
    function, shape = NOTHING[name]
    x = torch.ones(shape).to(dtype)
    assert_as_on_the_cpu(function, x.requires_grad_() if dtype is torch.float32 else x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_numbers_in_the_place_of_infinities(dtype: torch.dtype) -> None:
    x = torch.tensor([INFINITY, -INFINITY, float("nan"), 1], dtype=dtype)
    assert_as_on_the_cpu(lambda x: torch.stack([x.nan_to_num(), x.nan_to_num(2, 3, 4)]), x)


def test_the_trace_of_short_integers() -> None:
    assert_as_on_the_cpu(torch.trace, torch.full((3, 4), 100, dtype=torch.int8))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64, torch.int8])
def test_trace_leaves_the_other_elements_out(dtype):
    x = torch.arange(20.0).reshape(4, 5)
    if dtype != torch.int8:
        x[0, 1], x[3, 0] = float("inf"), float("nan")
    x = x.to(dtype)
    assert x.to("xla").trace().item() == x.trace().item()


@pytest.mark.parametrize("dim", [0, 1])
def test_chunk_cat(dim):
    """The columns of parameters that FSDP gathers; torch_xla pads them with zeros in the wrong places."""
    tensors = [torch.arange(12.0).reshape(4, 3) + 1, torch.ones(5, 3) * 7, torch.ones(2, 3)]
    want, got = (
        torch._chunk_cat([t.to(d) for t in tensors][: 3 - 2 * dim], dim, 2) for d in ("cpu", "xla")
    )
    assert torch.equal(got.cpu(), want)


@pytest.mark.parametrize("count", [0, 1, 5])
@pytest.mark.parametrize("right", [False, True])
def test_bucketize(count, right):
    x = torch.tensor([0.0, 1.5, 2.0, 7.0, float("nan")], dtype=torch.bfloat16)
    boundaries = torch.arange(count, dtype=torch.bfloat16)
    want, got = (torch.bucketize(x.to(d), boundaries.to(d), right=right) for d in ("cpu", "xla"))
    assert got.dtype == want.dtype
    assert torch.equal(got.cpu(), want)
    whole = torch.tensor([3, 1])
    assert torch.bucketize(whole.to("xla"), boundaries.float().to("xla")).tolist() == (
        torch.bucketize(whole, boundaries.float()).tolist()
    )


def test_gradients_of_entropies():
    x = torch.tensor([0.0, 0.5, 1.0, 2.0, float("inf")], requires_grad=True)
    assert_as_on_the_cpu(torch.special.entr, x)


def test_the_second_gradient_of_a_soft_margin():
    """It is small where the loss is, and the difference of two sums where it is made of the loss's logarithm."""
    found = []
    for device in ("cpu", "xla"):
        x = torch.tensor([-9.0, -3.0, 0.0, 4.0, 9.0], device=device, requires_grad=True)
        loss = torch.nn.functional.soft_margin_loss(x, torch.ones_like(x), reduction="sum")
        (gradient,) = torch.autograd.grad(loss, x, create_graph=True)
        found.append(torch.autograd.grad(gradient.sum(), x)[0].cpu())
    torch.testing.assert_close(found[1], found[0], rtol=1e-5, atol=0)


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("align_corners", [False, True])
def test_grid_samples_after_many_reflections(mode, align_corners):
    """PyTorch's decomposition counts reflections in 8 bits."""
    torch.manual_seed(0)
    x = torch.randn(1, 2, 5, 6)
    near = torch.rand(1, 3, 4, 2) * 1.8 - 0.9
    far = near + torch.tensor([4.0 * 100, -4.0 * 90])
    want, got = (
        torch.nn.functional.grid_sample(
            x.to(d), grid.to(d), mode, "reflection", align_corners=align_corners
        )
        for d, grid in (("cpu", near), ("xla", far))
    )
    torch.testing.assert_close(got.cpu(), want, rtol=1e-3, atol=1e-3)
