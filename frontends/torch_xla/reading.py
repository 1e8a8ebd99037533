"""What is read back computes all that is recorded, and not the way to what is read alone.

``x.item()``, ``if x:``, ``x.cpu()``, ``x.nonzero()`` and what torch_xla computes on the CPU need some tensors, and
torch_xla runs a program that computes just those. All else stays recorded: a loop that reads a number in each step (a
solver's error, whether ``generate()`` of transformers has reached an end) records a history that grows, and each number
is a new program that computes all steps from the first on. Here such a reading computes every tensor that is alive
first, as torch_xla's experiment ``early_sync`` does for numbers: each step is a program of its own, and the same
program where shapes stay.

The experiment loses all that is recorded if one of these tensors cannot be computed (a gradient of bools may be
recorded, and refused when it is computed) or has no room. So torch_xla is asked before for the program of all that is
alive, and where it has none, or its results would not fit, only what is read is computed. It is asked once for each
recording that ends so (:class:`_Recordings`).

It stays as torch_xla does it where several threads use the device (:mod:`.threads`), and in jobs of several devices:
one that alone reads a number would run the collectives that are recorded in another program than the others do. And
where XLA_EXPERIMENTAL is set, even to an empty text: the choice is the user's.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from . import complex_numbers, complex_transfers, seeds, threads

# Of how many recordings it is remembered whether all can be computed. Each is known by 16 bytes and two numbers.
_MOST_RECORDINGS: Final = 10_000
_RESULTS: Final = re.compile(r"func\.func @main\(.*\) -> (.*) \{$", re.MULTILINE)
_TENSOR: Final = re.compile(r"tensor<((?:\d+x)*)(complex<f(\d+)>|[a-z]+(\d+)[^>]*)>")
# What torch_xla says of a tensor that has failed.
_FAILED_BEFORE: Final = "Check failed: tensor_data"
# None where torch_xla's way stays.
_recordings: _Recordings | None = None


def install(environment: Mapping[str, str] = os.environ) -> None:
    """Compute all, once this has been called, in a process that has the job's only device."""
    global _recordings
    if _recordings is None and "XLA_EXPERIMENTAL" not in environment and _devices(environment) == 1:
        import _XLAC

        _recordings = _Recordings(_XLAC, seeds.install())


def to_copy(kernel: Callable[..., Any], x: Any, **options: Any) -> Any:
    """``_to_copy`` from one device or dtype to another."""
    device = options.get("device")
    if x.is_complex():
        x = complex_numbers.before_cast(x, options.get("dtype"))
    if device is None or device.type == x.device.type:
        return kernel(x, **options)
    if device.type != "cpu":
        if _recordings is not None:
            _recordings.threads.see()
        return complex_transfers.to_copy(kernel, x, **options)
    with threads.reading:
        _compute_all_with([x])
        return complex_transfers.to_copy(kernel, x, **options)


def to_cpu(kernel: Callable[..., Any], tensors: Any) -> Any:
    """``_to_cpu``, with which torch_xla gets the operands of what it computes on the CPU: tensors, and numbers."""
    with threads.reading:
        _compute_all_with([t for t in tensors if hasattr(t, "device") and t.device.type == "xla"])
        return complex_transfers.to_cpu(kernel, tensors)


def copy_(kernel: Callable[..., Any], x: Any, source: Any, non_blocking: bool = False) -> Any:
    """``copy_``, to another device too."""
    if x.device.type == source.device.type:
        return complex_transfers.copy_(kernel, x, source, non_blocking)
    with threads.reading:
        if x.device.type == "cpu":
            _compute_all_with([source])
        return complex_transfers.copy_(kernel, x, source, non_blocking)


def copy_from(kernel: Callable[..., Any], source: Any, x: Any, non_blocking: bool = False) -> Any:
    """``_copy_from``, which writes into ``x``."""
    with threads.reading:
        return complex_transfers.copy_from(kernel, source, x, non_blocking)


#: Beside the kernels of the dispatch key XLA.
CORRECTIONS: Final[dict[str, Callable[..., Any]]] = {
    "_to_copy.default": to_copy,
    "_to_cpu.default": to_cpu,
    "_copy_from.default": copy_from,
    "copy_.default": copy_,
}


def _compute_all_with(tensors: Sequence[Any]) -> None:
    """All that is recorded on the device of ``tensors``, if any of them is recorded only."""
    if _recordings is not None and tensors and _recordings.can_all_be_computed(tensors):
        _recordings.compute_all(str(tensors[0].device))


def _devices(environment: Mapping[str, str]) -> int:
    """How many devices the job has; 0 if a variable has something else than a number, of which others complain."""
    try:
        return int(environment.get("WORLD_SIZE", "1")) * int(
            environment.get("TRIPONT_NUM_DEVICES", "1") or "1"
        )
    except ValueError:
        return 0


class _Recordings:
    """What is known of recordings that end in a reading.

    A recording is known by torch_xla's hash of all that leads to what is read, and by how many tensors have come and
    gone since all was computed, here or by ``torch_xla.sync()``. The second time that a program comes here it does the
    same as the first time, so that it finds its programs again.
    """

    def __init__(self, xlac: Any, of_draws: seeds.Seeds) -> None:
        import torch
        from torch_xla.debug import metrics

        self._xlac = xlac
        self._seeds = of_draws
        self.threads = threads.Threads()
        self._count: Any = metrics.counter_value
        self._empty = torch.empty
        self._hash_of_computed: bytes | None = None
        self._computed = self._tensors()
        self._can_be_computed: dict[tuple[bytes, int, int], bool] = {}
        xlac._xla_step_marker = self._beginning(xlac._xla_step_marker)

    def _beginning(self, mark: Callable[..., None]) -> Callable[..., None]:
        def step_marker(*arguments: Any, **options: Any) -> None:
            self.threads.see()
            mark(*arguments, **options)
            self._computed = self._tensors()

        return step_marker

    def _tensors(self) -> tuple[int, int]:
        """How many tensors have come and gone in this process."""
        return self._count("CreateXlaTensor") or 0, self._count("DestroyXlaTensor") or 0

    def can_all_be_computed(self, tensors: Sequence[Any]) -> bool:
        """Whether some of ``tensors`` is recorded and not computed, and all tensors alive can be translated and have
        room on the device together, with one thread that uses it.
        """
        self.threads.see()
        device = tensors[0].device
        way = self._xlac._get_graph_hash(tensors)
        if way == self._way_to_computed(device) or not self.threads.is_alone():
            return False
        come, gone = (now - then for now, then in zip(self._tensors(), self._computed, strict=True))
        known = self._can_be_computed.get((way, come, gone))
        if known is None:
            if len(self._can_be_computed) >= _MOST_RECORDINGS:
                self._can_be_computed.clear()
            known = self._has_program_and_room(str(device))
            self._can_be_computed[way, come, gone] = known
        return known

    def _way_to_computed(self, device: Any) -> bytes:
        """torch_xla's hash of what has been computed, of all of which it is the same."""
        if self._hash_of_computed is None:
            computed = self._empty(2, device="cpu").to(device)  # one number would be a constant
            self._hash_of_computed = bytes(self._xlac._get_graph_hash([computed]))
        return self._hash_of_computed

    def compute_all(self, device: str) -> None:
        """All tensors alive on ``device``. What is drawn afterwards does not begin with what was drawn before.

        Nothing is done where a tensor has failed before, which has neither a program nor numbers.
        """
        try:
            self._xlac._xla_sync_live_tensors(device, [], True)
        except RuntimeError as error:
            if _FAILED_BEFORE in str(error):  # torch_xla looks for that before it changes anything
                return
            raise
        self._computed = self._tensors()
        self._seeds.begin_anew(device)

    def _has_program_and_room(self, device: str) -> bool:
        try:
            program = self._xlac._get_stablehlo([], device, [], False)
        except RuntimeError:
            # Some tensor cannot be computed. torch_xla says why to those who read that one.
            return False
        room = int(self._xlac._xla_memory_info(device)["bytes_limit"])
        return 0 < _bytes_of_results(program.decode()) <= room


def _bytes_of_results(program: str) -> int:
    """The bytes of all results of a program in StableHLO; 0 if they are not found."""
    results = _RESULTS.search(program)
    return sum(map(_bytes, _TENSOR.finditer(results[1]))) if results else 0


def _bytes(tensor: re.Match[str]) -> int:
    """The bytes of a tensor of the matched type, a pred's elements a byte each."""
    dimensions, part, bits = tensor[1], tensor[3], tensor[4]
    width = 2 * int(part) if part else int(bits)
    return math.prod(map(int, dimensions.split("x")[:-1])) * -(-width // 8)
