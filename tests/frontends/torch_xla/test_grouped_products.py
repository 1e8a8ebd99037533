"""``torch._grouped_mm``, which ends the process with torch_xla's tensors otherwise: as on PyTorch's CPU."""

from __future__ import annotations

import pytest
import torch
from torch_xla.debug import metrics

OFFSETS = [7, 7, 16, 24]
# PyTorch's own kernel wants rows of multiples of 16 bytes.
SHAPES = {
    "rows": ((24, 8), (4, 8, 16)),
    "columns": ((4, 16, 8), (8, 24)),
    "terms": ((8, 24), (24, 16)),
    "batches": ((4, 32, 8), (4, 8, 16)),
}


def product(
    shapes: tuple[tuple[int, ...], tuple[int, ...]], dtype: torch.dtype, device: str
) -> list[torch.Tensor]:
    """The product of whole numbers and its gradients: exact in every dtype."""
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randint(-3, 4, s, generator=generator).to(dtype) for s in shapes)
    a, b = (t.to(device).requires_grad_() for t in (a, b))
    given = (
        None if len(shapes[0]) == len(shapes[1]) == 3 else torch.tensor(OFFSETS, dtype=torch.int32)
    )
    result = torch._grouped_mm(a, b, offs=None if given is None else given.to(device))
    (result * result).sum().backward()
    return [t.detach().cpu() for t in (result, a.grad, b.grad)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shapes", SHAPES.values(), ids=SHAPES)
def test_products_and_gradients(shapes, dtype) -> None:
    on_device = product(shapes, dtype, "xla")
    for got, want in zip(on_device, product(shapes, dtype, "cpu"), strict=True):
        assert got.dtype == want.dtype
        assert torch.equal(got, want)


def test_products_of_equal_shapes_are_told_apart() -> None:
    """torch_xla takes two custom calls of one name with equal shapes for the same, unless the name tells."""
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randint(-3, 4, s, generator=generator).float() for s in ((8, 8), (2, 8, 8)))
    offsets = torch.tensor([4, 8], dtype=torch.int32)
    for operands in ((a, b), (b, a)):
        on_device = [t.to("xla") for t in operands]
        result = torch._grouped_mm(*on_device, offs=offsets.to("xla"))
        assert torch.equal(result.cpu(), torch._grouped_mm(*operands, offs=offsets))


def test_nothing_is_read_back() -> None:
    metrics.clear_all()
    product(SHAPES["rows"], torch.float32, "xla")
    assert not [name for name in metrics.counter_names() if "grouped_mm" in name]


@pytest.mark.parametrize(
    ("shapes", "offsets", "says"),
    [
        (((20, 6), (4, 7, 5)), 4, "do not fit"),
        (((20, 6), (4, 6, 5)), 3, "3 offsets for 4 groups"),
        (((20, 6), (4, 6, 5)), None, "there are offsets unless"),
        (((6,), (4, 6, 5)), 4, "two or three dimensions"),
    ],
)
def test_operands_that_do_not_fit(shapes, offsets, says) -> None:
    a, b = (torch.zeros(s, device="xla") for s in shapes)
    given = (
        None
        if offsets is None
        else torch.tensor(OFFSETS[:offsets], dtype=torch.int32, device="xla")
    )
    with pytest.raises(RuntimeError, match=says):
        torch._grouped_mm(a, b, offs=given)
