"""The check of products, which the emulator runs once in a long while, works: some of it on this machine."""

from __future__ import annotations

import pytest
from tripont.core import _tripont

from tests.arm64 import products


@pytest.fixture(scope="module")
def client() -> _tripont.Client:
    return _tripont.Client({"prestart_worker": False})


@pytest.mark.parametrize("element", products.FLOATS)
def test_products_of_floats_are_exact(client: _tripont.Client, element: str) -> None:
    assert list(products.float_product(client, element, 5, 40, 33)) == []
