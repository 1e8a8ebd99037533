"""How generated convolutions are laid out: their dimensions and their tiles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tripont.core.compiler.ir.hlo import Instruction
from tripont.core.compiler.ir.hlo import WindowDimension as W
from tripont.core.compiler.passes.library.window_products import generate_convolution
from tripont.core.compiler.targets.host import for_cpu

from tests.core.compiler.codegen.kernels.test_convolution import (
    LAYOUTS,
    SAME,
    convolution,
    reference,
)
from tests.core.compiler.codegen.kernels.test_window_product import arrays_of, compiled

LAST, FIRST = LAYOUTS[:2]
POINT = [W(1), W(1)]


def product_of(convolution: Instruction, cpu: str = "x86-64-v3") -> dict[str, Any]:
    """The attributes of the ``window-product`` that computes it."""
    made = generate_convolution(convolution, for_cpu(cpu))
    while made is not None and made.opcode != "window-product":
        made = made.operands[0]
    assert made is not None
    config: dict[str, Any] = made.attributes["config"]
    return config


def sizes_of(config: dict[str, Any]) -> set[int]:
    return {d[0] for d in (*config["outer"], config["row"], config["vector"])}


@pytest.mark.parametrize(
    ("joined", "layout", "window"),
    [
        ((3 * 12 * 20, 48), LAST, POINT),  # a product of matrices
        ((3, 12 * 20, 48), FIRST, POINT),  # one for each image
        ((3, 12, 20, 48), LAST, SAME),
        ((3, 12, 20, 48), FIRST, SAME),
        ((3 * 6, 10, 48), LAST, [W(1, 2), W(1, 2)]),
        ((3, 6, 20, 48), FIRST, [W(1, 2), W(1)]),  # every other row
    ],
    ids=str,
)
def test_positions_that_follow_each_other_are_one_dimension(
    joined: tuple[int, ...], layout: str, window: list[W]
) -> None:
    sizes = {"N": 3, "C": 24, "O": 48, "H": 12, "W": 20}
    config = product_of(convolution(sizes, window, layout))
    assert sizes_of(config) == set(joined)


def test_dimensions_of_one_element_do_not_part_positions() -> None:
    """Convolutions of one dimension are written as images of one row too."""
    sizes = {"N": 3, "C": 24, "O": 48, "H": 1, "W": 20}
    assert sizes_of(product_of(convolution(sizes, POINT, LAST))) == {3 * 20, 48}
    one = {**sizes, "C": 1}
    assert sizes_of(product_of(convolution({**one, "O": 1}, POINT, FIRST))) >= {3 * 20}
    assert sizes_of(product_of(convolution(one, POINT, FIRST))) == {
        3,
        20,
        48,
    }  # features are between


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    "window", [POINT, [W(1, 2), W(1, 2)], [W(1, 1, 1, 0), W(1)], [W(1), W(1, 1, -1, 2)]], ids=str
)
def test_windows_of_one_element(layout: str, window: list[W]) -> None:
    """With more positions than a unit of work has, and not whole vectors of them."""
    made = convolution({"N": 3, "C": 5, "O": 21, "H": 19, "W": 37}, window, layout)
    arrays = arrays_of(made)
    (got,) = compiled(made).run(arrays)
    np.testing.assert_array_equal(got, reference(made, *arrays))


@pytest.mark.parametrize("layout", [LAST, FIRST])
@pytest.mark.parametrize("features", [16, 24, 48, 96, 192])
def test_scalars_that_terms_share_have_registers(features: int, layout: str) -> None:
    """Where the rows of a tile move on as the window does, an element reads what its neighbour has read."""
    sizes = {"N": 2, "C": features, "O": features, "H": 28, "W": 28}
    config = product_of(convolution(sizes, SAME, layout))
    taps, step, _ = config["sums"][-1]
    rows, vectors = config["rows"], config["vectors"]
    scalars = min(rows, taps) if config["row"][1] == step else 1
    assert rows * vectors + vectors + scalars <= 16
