"""The client of the runtime's tests."""

from ..runtime.conftest import client  # noqa: F401
