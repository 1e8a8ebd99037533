"""What is read back computes all that is recorded, where all can be computed; else what is read alone."""

from __future__ import annotations

import gc
import os
import weakref
from collections.abc import Callable

import pytest
import torch
import torch_xla
from torch_xla.debug import metrics
from tripont.frontends.torch_xla import reading

from tests.starter import Starter

_LOOP = """
import tripont.torch_xla
import torch, torch_xla
from torch_xla.debug import metrics

x = torch.full((3, 4), 2.0, device="xla")
y = torch.full((3, 4), 5.0, device="xla")
torch_xla.sync()
expected, total, counts = torch.full((3, 4), 2.0), torch.full((3, 4), 5.0), []
for _ in range(6):
    x = x * 0.5 + 0.25
    y = y + x
    expected = expected * 0.5 + 0.25
    total = total + expected
    assert x.sum().item() == expected.sum().item()
    counts.append(metrics.metric_data("CompileTime")[0])
assert torch.equal(x.cpu(), expected) and torch.equal(y.cpu(), total)
print(*counts)
"""


_DTYPES = [
    torch.bool,
    torch.uint8,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.float32,
    torch.complex64,
]


def _compiled() -> int:
    data = metrics.metric_data("CompileTime")
    return data[0] if data else 0


@pytest.mark.parametrize("read_first", [False, True])
def test_nothing_is_lost_beside_a_tensor_that_cannot_be_computed(read_first: bool) -> None:
    """Computing all that is recorded would fail and lose it: the number is computed alone."""
    torch_xla.sync()
    other = torch.ones(3, device="xla") * 5
    x = torch.arange(4.0, device="xla") * 2
    truths = torch.ones(3, device="xla", dtype=torch.bool)
    broken = torch.ops.aten.gelu_backward(truths, truths)  # recorded, and refused by XLA
    try:
        if read_first:
            with pytest.raises(RuntimeError, match="gelu_backward"):
                broken.cpu()
        assert x.sum().item() == 12
        assert bool(x.sum() == 12)
        assert x.cpu().tolist() == [0, 2, 4, 6]
        assert other.cpu().tolist() == [5, 5, 5]
    finally:
        del broken  # the next sync of the process would fail
        gc.collect()  # the error that was raised holds it


def test_gradients_after_a_number_was_read() -> None:
    w = torch.full((4,), 3.0, device="xla", requires_grad=True)
    loss = (w * w).sum()
    assert loss.item() == 36
    loss.backward()
    assert w.grad is not None
    assert w.grad.cpu().tolist() == [6, 6, 6, 6]


def test_nothing_is_lost_beside_tensors_that_have_no_room_together() -> None:
    torch_xla.sync()
    room = torch_xla._XLAC._xla_memory_info("xla:0")["bytes_limit"]
    x = torch.arange(4.0, device="xla") * 2
    large = [x.sum().expand(room // 12, 2) + i for i in range(2)]
    assert x.sum().item() == 12
    assert large[1][-1].sum().item() == 26
    del large
    assert x.cpu().tolist() == [0, 2, 4, 6]


def test_a_computed_number_is_read_without_what_is_recorded() -> None:
    """As in a loop that looks at the loss of the step before."""
    computed = torch.ones(3, device="xla").sum()
    torch_xla.sync()
    y = torch.arange(5.0, device="xla") * 3
    before = _compiled()
    assert computed.item() == 3
    assert _compiled() == before
    assert y.cpu().tolist() == [0, 3, 6, 9, 12]


@pytest.mark.parametrize("dtype", [*_DTYPES, torch.complex128, torch.float64, torch.bfloat16])
def test_numbers_of_every_type(dtype: torch.dtype) -> None:
    x = torch.tensor([3], dtype=dtype, device="xla")
    number = (x * x).item()
    on_cpu = torch.tensor([3], dtype=dtype)
    expected = (on_cpu * on_cpu).item()
    assert number == expected
    assert type(number) is type(expected)


def test_a_number_with_gradients_in_inference_mode_and_of_a_view() -> None:
    w = torch.arange(6.0, device="xla", requires_grad=True)
    assert (w * 2)[3].item() == 6
    with torch.inference_mode():
        assert w.reshape(2, 3)[1, 1].item() == 4
        assert bool((w > 4).any())


def test_many_elements_are_not_a_number() -> None:
    with pytest.raises(RuntimeError, match="2 elements"):
        torch.ones(2, device="xla").item()


@pytest.mark.parametrize(
    "read",
    [
        lambda x: x.sum().item(),
        lambda x: x.sum().cpu(),
        lambda x: x.sum().tolist(),
        lambda x: torch.empty(()).copy_(x.sum()),
        lambda x: (x > 9).nonzero(),
        lambda x: x[x > 9],
        lambda x: torch.equal(x, x * 1),
        lambda x: torch.mode(x),
        lambda x: repr(x * 1),
    ],
    ids=["item", "cpu", "tolist", "copy_", "nonzero", "mask", "equal", "on the CPU", "repr"],
)
def test_each_step_of_a_loop_has_the_same_programs(read: Callable[[torch.Tensor], object]) -> None:
    x = torch.full((3,), 2.0, device="xla")
    y = torch.zeros(3, device="xla")
    torch_xla.sync()
    counts = []
    for _ in range(5):
        x = x * 1.5
        y = y + x
        read(x)
        counts.append(_compiled())
    assert counts[1:] == counts[:1] * 4


def test_the_second_time_a_loop_finds_its_programs() -> None:
    counts = []
    for _ in range(3):
        before = _compiled()
        x = torch.full((7,), 2.0, device="xla")
        kept = []
        while (x.sum() < 100).item():
            x = x * 1.5
            kept.append(x + 1)
        assert torch.stack(kept).cpu().shape == (5, 7)
        counts.append(_compiled() - before)
    assert counts[0] > 0
    assert counts[1:] == [0, 0]


def test_a_reading_keeps_no_tensor_alive() -> None:
    """What stays alive is computed with what is read next, in a program that nothing else has."""

    def read() -> weakref.ref[torch.Tensor]:
        x = torch.arange(4.0, device="xla") * 3
        assert x.sum().item() == 18
        return weakref.ref(x)

    gc.collect()
    gc.disable()
    try:
        assert read()() is None
    finally:
        gc.enable()


def test_a_recording_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though more tensors are alive in each step."""
    looked_at = []
    original = reading._Recordings._has_program_and_room

    def look(self: reading._Recordings, device: str) -> bool:
        looked_at.append(device)
        return original(self, device)

    monkeypatch.setattr(reading._Recordings, "_has_program_and_room", look)
    x = torch.full((9,), 2.0, device="xla")
    torch_xla.sync()
    kept, counts = [], []
    for step in range(8):
        x = x * 1.25
        kept.append(x)
        x.sum().item()
        if step % 3 == 0:
            torch_xla.sync()
        counts.append(len(looked_at))
    assert 0 < counts[3] <= 4
    assert counts[4:] == counts[3:4] * 4


@pytest.mark.parametrize(
    ("variables", "same"),
    [
        ({}, True),
        ({"XLA_EXPERIMENTAL": "early_sync"}, True),
        # What the user has chosen stays, and a device of several must not compute what others do not.
        ({"XLA_EXPERIMENTAL": ""}, False),
        ({"TRIPONT_NUM_DEVICES": "2"}, False),
    ],
    ids=["as it is", "early_sync", "empty", "two devices"],
)
def test_a_loop_that_reads_a_number_is_compiled_once(
    starter: Starter, variables: dict[str, str], same: bool
) -> None:
    environment = {k: v for k, v in os.environ.items() if k != "XLA_EXPERIMENTAL"}
    done = starter.run(_LOOP, environment | {"PJRT_DEVICE": "XPU"} | variables)
    assert done.returncode == 0, done.stderr
    counts = done.stdout.split()
    assert (counts[2:] == counts[2:3] * 4) is same  # after the second step nothing is new


@pytest.mark.parametrize(
    ("results", "expected"),
    [
        ("tensor<4x3xf32>", 48),
        ("(tensor<4xf32>, tensor<3x2xcomplex<f32>>, tensor<ui8>, tensor<2x0xi64>)", 16 + 48 + 1),
        ("(tensor<3xi1>, tensor<bf16>, tensor<2xcomplex<f64>>, tensor<5xf8E4M3FN>)", 42),
    ],
)
def test_bytes_of_results(results: str, expected: int) -> None:
    program = f"module @a {{\n  func.func @main(%arg0: tensor<9xf32>) -> {results} {{\n    return"
    assert reading._bytes_of_results(program) == expected


def test_a_program_without_a_main_has_no_results() -> None:
    assert reading._bytes_of_results("module @a {}") == 0


_DRAWS = """
import tripont.torch_xla
import torch, torch_xla
from torch_xla.debug import metrics

def compiled():
    data = metrics.metric_data("CompileTime")
    return data[0] if data else 0

drawn = []
def draws():
    for _ in range(4):
        x = torch.rand(3, device="xla") + torch.nn.functional.dropout(torch.ones(3, device="xla"))
        drawn.append(x.sum().item())
    drawn.append(torch.randn(2, device="xla").tolist())

draws()  # before the first sync()
torch_xla.sync()
draws()
draws()
torch_xla.sync()
torch_xla.manual_seed(7)
draws()
torch_xla.sync()
torch_xla.sync()
before = compiled()
draws()
torch_xla.sync()
draws()
print(compiled() - before)
print(drawn)
"""


def test_numbers_that_are_drawn_do_not_depend_on_readings(starter: Starter) -> None:
    environment = {k: v for k, v in os.environ.items() if k != "XLA_EXPERIMENTAL"}
    environment["PJRT_DEVICE"] = "XPU"
    here = starter.run(_DRAWS, environment)
    alone = starter.run(_DRAWS, environment | {"XLA_EXPERIMENTAL": ""})
    assert here.returncode == alone.returncode == 0, here.stderr + alone.stderr
    assert here.stdout.split("\n", 1)[1] == alone.stdout.split("\n", 1)[1]
    assert here.stdout.split("\n", 1)[0] == "0"  # a second time has the programs of the first
