"""What JAX's CPU platform has a lowering for and xpu has not, from JAX's own tables.

known_gaps.json names each such primitive with a reason. The list may only shrink: a primitive that a new JAX adds fails
the first test, one that has got a lowering fails the second. Run as a module, this prints them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tripont.frontends.jax import PLATFORM, compat, lowerings

KNOWN: dict[str, dict[str, str]] = json.loads(
    Path(__file__).with_name("known_gaps.json").read_text()
)


def gaps() -> dict[str, str]:
    """Primitives by name: ``refused`` (no lowering on xpu) or ``portable`` (the one of every platform is used)."""
    import jax.experimental.checkify
    import jax.experimental.sparse
    import jax.experimental.sparse.linalg
    import jax.scipy.linalg  # noqa: F401
    from jax._src.interpreters import mlir

    lowerings.register(PLATFORM)  # for the modules that were imported after JAX had started
    own = compat.lowerings_of(PLATFORM)
    found = {}
    for name, (primitive, _) in compat.lowerings_of("cpu").items():
        if name not in own:
            found[name] = "portable" if primitive in mlir._lowerings else "refused"
        elif name in lowerings.MISSING:
            found[name] = "refused"
    return found


def test_no_new_gap(xpu: Any) -> None:
    new = {name: kind for name, kind in gaps().items() if name not in KNOWN[kind]}
    assert not new, "give these a lowering in frontends/jax, or a reason in known_gaps.json"


@pytest.mark.parametrize("kind", ["refused", "portable"])
def test_no_gap_that_is_closed(xpu: Any, kind: str) -> None:
    found = gaps()
    closed = [name for name in KNOWN[kind] if found.get(name) != kind]
    assert not closed, "take these out of known_gaps.json"


def test_every_gap_has_a_reason() -> None:
    for kind in ("refused", "portable"):
        for name, reason in KNOWN[kind].items():
            assert len(reason) > 10, name


if __name__ == "__main__":
    import jax

    jax.devices(PLATFORM)
    print(json.dumps(gaps(), indent=2, sort_keys=True))
