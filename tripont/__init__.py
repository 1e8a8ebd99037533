"""tripont: one compiler and runtime core, seen by JAX, TensorFlow and PyTorch/XLA as the device ``xpu``.

Nothing is imported here: ``import jax`` finds the device through the entry point ``jax_plugins``.
"""

from __future__ import annotations

from pathlib import Path
from pkgutil import extend_path

from .version import __version__

__all__ = ["__version__", "library_path"]

# In a checkout this folder lacks core/ and frontends/, which lie beside it. A process started in the checkout's root
# sees this folder first and finds the rest in the installed package, because that is added to the path here.
__path__ = extend_path(__path__, __name__)


def library_path() -> str:
    """The path of ``libtripont.so``, the PJRT plugin.

    Raises FileNotFoundError, with the command that mends it, if the C++ part is not built.
    """
    candidates = [Path(folder, "lib", "libtripont.so") for folder in __path__]
    for candidate in candidates:
        if candidate.is_file():
            return str(candidate.resolve())
    looked = ", ".join(str(candidate) for candidate in candidates)
    raise FileNotFoundError(
        f"libtripont.so is missing (looked for {looked}): run `pip install .` or, in a checkout, `make dev`"
    )
