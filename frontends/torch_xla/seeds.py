"""Random numbers after a number has been read.

torch_xla makes a seed of each draw out of the one before, in the program, and begins with a number again after
``torch_xla.sync()``. So a loop that draws and reads a number in each step (``generate(do_sample=True)`` of
transformers) has another program in each step, which computes all seeds since the last ``sync()``, and others again
when it runs once more. :meth:`Seeds.begin_anew` has the next draw begin with a number. The numbers that are drawn stay
those of torch_xla: the seeds are the same, and at ``sync()`` torch_xla finds the seed that it had at the last one, from
which it makes the next.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

# What a device's seeds begin with in torch_xla.
_FIRST: Final = 101


class Seeds:
    """The seeds of torch_xla's devices. Takes the place of two functions of ``_XLAC``, those that change seeds."""

    def __init__(self, xlac: Any) -> None:
        self._running = xlac._xla_get_rng_seed
        self._set = xlac._xla_set_rng_seed
        # By device: the seed at the last sync(), and of those that began anew since then.
        self._at_sync: dict[str, int] = {}
        self._changed: set[str] = set()
        xlac._xla_set_rng_seed = self._setting()
        xlac._xla_step_marker = self._syncing(xlac._xla_step_marker)

    def begin_anew(self, device: str) -> None:
        """Have the next draw on ``device`` begin with its seed as a number."""
        self._changed.add(device)
        self._set(self._running(device), device)

    def _setting(self) -> Callable[..., None]:
        def set_rng_seed(seed: int, device: str = "") -> None:
            self._set(seed, device)
            self._at_sync[_name(device)] = seed
            self._changed.discard(_name(device))

        return set_rng_seed

    def _syncing(self, mark: Callable[..., None]) -> Callable[..., None]:
        def step_marker(device: str = "", *arguments: Any, **options: Any) -> None:
            name = _name(device)
            if name in self._changed:
                self._changed.discard(name)
                self._set(self._at_sync.get(name, _FIRST), name)
            mark(device, *arguments, **options)
            self._at_sync[name] = self._running(name)

        return step_marker


def _name(device: str) -> str:
    """The device's name; the process has one, which an empty text stands for."""
    return device or "xla:0"
