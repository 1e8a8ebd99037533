"""Fixtures: the plugin, and clients with one and with four devices."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tripont import library_path

from .c_api import Api
from .host import Client


@pytest.fixture(scope="session")
def api() -> Api:
    return Api(library_path())


@pytest.fixture(scope="session")
def client(api: Api) -> Iterator[Client]:
    client = Client(api)
    yield client
    client.close()


@pytest.fixture(scope="session")
def client4(api: Api) -> Iterator[Client]:
    """A second client, of four devices, that lives at the same time as `client`."""
    client = Client(api, num_devices=4)
    yield client
    client.close()
