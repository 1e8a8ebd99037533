"""The backends that the suite runs on: a line for each that is registered, and for each kind of its devices."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tests import sycl_packages

from .checked import build


@dataclass(frozen=True)
class Backend:
    """``device``: the value of TRIPONT_DEVICE. ``environment``: what else its processes need, asked for when it starts.

    ``failing``: checks that are known to fail, "module.check" -> why. ``missing``: why it cannot be had here; or empty.
    """

    device: str
    environment: Callable[[], Mapping[str, str]] = dict
    failing: Mapping[str, str] = field(default_factory=dict)
    missing: Callable[[], str] = str

    @property
    def name(self) -> str:
        return self.device.partition(":")[0]


BACKENDS = (
    Backend("host"),
    Backend("sycl:cpu", missing=sycl_packages.missing),
    Backend("sycl:cpu-as-gpu", missing=sycl_packages.missing),
    Backend("checked", build.environment, missing=build.missing),  # of another package: checked/
)
