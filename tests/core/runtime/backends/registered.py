"""The backends that the suite runs on: a line for each that is registered, and for each kind of its devices."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

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


def _no_sycl() -> str:
    """The wheels of the SYCL runtime are for x86-64; where they are, a missing device is a failure and not a skip."""
    return "" if platform.machine() == "x86_64" else "the SYCL runtime's wheels are for x86-64"


BACKENDS = (
    Backend("host"),
    Backend("sycl:cpu", missing=_no_sycl),
    Backend("sycl:cpu-as-gpu", missing=_no_sycl),
    Backend("checked", build.environment, missing=build.missing),  # of another package: checked/
)
