"""The seeds of random numbers on the device.

``torch.manual_seed`` reaches the device as it reaches PyTorch's others: what is drawn next is what is drawn after
``torch_xla.manual_seed`` of the same number. torch_xla alone draws on. A device gets the seed when it draws, for
``torch.manual_seed`` must not start it: a process that loads data calls it as well.

torch_xla makes a seed of each draw out of the one before, in the program, and begins with a number again after
``torch_xla.sync()``. So a loop that draws and reads a number in each step (``generate(do_sample=True)`` of
transformers) has another program in each step, which computes all seeds since the last ``sync()``, and others again
when it runs once more. :meth:`Seeds.begin_anew` has the next draw begin with a number. The numbers that are drawn stay
those of torch_xla: the seeds are the same, and at ``sync()`` torch_xla finds the seed that it had at the last one, from
which it makes the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

# What a device's seeds begin with in torch_xla.
_FIRST: Final = 101
# torch_xla takes a seed as 64 bits without a sign.
_BITS: Final = (1 << 64) - 1
#: Operations that draw from the device's seed.
DRAWS: Final = (
    "bernoulli.default", "bernoulli.p", "bernoulli_.Tensor", "bernoulli_.float", "exponential_.default",
    "native_dropout.default", "normal.Tensor_Tensor", "normal.Tensor_float", "normal.float_Tensor", "normal_.default",
    "random_.default", "random_.from", "random_.to", "rrelu_with_noise.default", "uniform_.default",
)  # fmt: skip
_seeds: Seeds | None = None


def install() -> Seeds:
    """The seeds of this process's devices, which ``torch.manual_seed`` reaches from now on."""
    global _seeds
    if _seeds is None:
        import _XLAC
        import torch

        _seeds = Seeds(_XLAC)
        random: Any = torch.random
        random._seed_custom_device = _seeds.following(random._seed_custom_device)
    return _seeds


def drawing(correction: Callable[..., Any] | None) -> Callable[..., Any]:
    """``correction`` of an operation that draws, or its kernel where there is none, once the device has its seed."""

    def draw(kernel: Callable[..., Any], *operands: Any, **options: Any) -> Any:
        if _seeds is not None:
            _seeds.before_draw(operands)
        if correction is None:
            return kernel(*operands, **options)
        return correction(kernel, *operands, **options)

    return draw


class Seeds:
    """The seeds of torch_xla's devices. Takes the place of three functions of ``_XLAC``, which read or change them."""

    def __init__(self, xlac: Any) -> None:
        self._running = xlac._xla_get_rng_seed
        self._set = xlac._xla_set_rng_seed
        self._default_device = xlac._xla_get_default_device
        # By device: the seed at the last sync(), and of those that began anew since then.
        self._at_sync: dict[str, int] = {}
        self._changed: set[str] = set()
        # What torch.manual_seed was given last, and the devices that have a seed since then.
        self._asked: int | None = None
        self._seeded: set[str] = set()
        xlac._xla_get_rng_seed = self._get_rng_seed
        xlac._xla_set_rng_seed = self._set_rng_seed
        xlac._xla_step_marker = self._syncing(xlac._xla_step_marker)

    def following(self, seed_others: Callable[[int], None]) -> Callable[[int], None]:
        """The part of ``torch.manual_seed`` that seeds devices: ``seed_others``, and these ones when they draw."""

        def seed_devices(seed: int) -> None:
            seed_others(seed)
            self._asked = int(seed) & _BITS
            self._seeded.clear()

        return seed_devices

    def before_draw(self, operands: Iterable[Any]) -> None:
        """Let the device of ``operands`` have the seed that was asked for."""
        if self._asked is not None:
            device = next(x.device for x in operands if hasattr(x, "device"))
            self._give(str(device))

    def begin_anew(self, device: str) -> None:
        """Have the next draw on ``device`` begin with its seed as a number."""
        self._changed.add(device)
        self._set(self._running(device), device)

    def _give(self, device: str) -> None:
        if self._asked is not None and device not in self._seeded:
            self._set_rng_seed(self._asked, device)

    def _get_rng_seed(self, device: str = "") -> int:
        name = self._name(device)
        self._give(name)
        return int(self._running(name))

    def _set_rng_seed(self, seed: int, device: str = "") -> None:
        name = self._name(device)
        self._set(seed, name)
        self._at_sync[name] = seed
        self._changed.discard(name)
        self._seeded.add(name)

    def _syncing(self, mark: Callable[..., None]) -> Callable[..., None]:
        def step_marker(device: str = "", *arguments: Any, **options: Any) -> None:
            name = self._name(device)
            if name in self._changed:
                self._changed.discard(name)
                self._set(self._at_sync.get(name, _FIRST), name)
            mark(device, *arguments, **options)
            self._at_sync[name] = self._running(name)

        return step_marker

    def _name(self, device: str) -> str:
        return device or str(self._default_device())
