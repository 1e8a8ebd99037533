"""The compiler's side of the backend of backend.cc: the host's code under another name."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from tripont.core.compiler.targets import Registration
from tripont.core.compiler.targets.host import HostTarget, for_cpu, texts_of

REGISTRATION = Registration("checked", "there is nothing to say", module=__name__)


def from_options(options: Mapping[str, str]) -> HostTarget:
    """The CPU ``cpu``, with or without ``onednn``."""
    host = for_cpu(options.get("cpu") or "host", options.get("onednn") != "0")
    return dataclasses.replace(host, name="checked", fingerprint=f"checked-{host.fingerprint}")


__all__ = ["REGISTRATION", "from_options", "texts_of"]
