"""``import tripont.torch_xla`` makes PyTorch/XLA's device, ``torch_xla.device()``, tripont's.

See docs/pytorch.md. Raises ImportError, saying what to do, where it cannot.
"""

from __future__ import annotations

from tripont.frontends.torch_xla import activate

activate()
