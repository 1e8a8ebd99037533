"""Recording operations faster: without the parts of PyTorch's recording that have no effect on this device.

A training step of PyTorch/XLA is recorded, operation by operation, while the device computes the step before. For a
small model the recording takes longer than the step, so :func:`install` takes out of it what has no effect here. A step
of a small network with SGD is recorded in four fifths of the time.

* Gradients are recorded on the thread that calls ``backward()``. PyTorch hands them to a thread for each device, so
  that devices compute at the same time. Here they do that anyway, and two changes of threads a step cost more than
  they bring, the most where all cores are busy. Dynamo leaves that part of the thread alone, as it leaves theirs.
* An optimizer names its steps for profiles, which takes 40 us a step: only while a profile is taken.
* In-place operations compare equal shapes quickly (:mod:`.shape_checks`).
"""

from __future__ import annotations

from typing import Any

from . import shape_checks


def install() -> None:
    """Do all of this, once; where gradients are recorded is a matter of the thread that calls this."""
    import torch

    shape_checks.install()
    torch.autograd.set_multithreading_enabled(False)
    _leave_alone(torch.autograd.graph._engine_run_backward)
    _name_steps_in_profiles_only(torch.autograd.profiler.record_function)


def _leave_alone(function: Any) -> None:
    """Have Dynamo compile neither the frames of this function nor those that it calls.

    A compiled function that calls ``backward()`` runs on under Dynamo, which compiles what its thread calls meanwhile
    as if it were the user's: the kernels of this device, and torch_xla's bridge, which then looks for programs that
    nobody has compiled. On the device's thread there is no Dynamo. A mark on the code costs nothing without it.
    """
    from torch._C._dynamo import eval_frame

    skip = eval_frame._FrameAction.SKIP
    strategy = eval_frame._FrameExecStrategy(skip, skip)
    eval_frame.set_code_exec_strategy(function.__code__, strategy)


def _name_steps_in_profiles_only(record_function: Any) -> None:
    """``record_function`` is the class of the names; those that its user gives stay as they are."""
    from torch._C._autograd import _profiler_enabled

    original = record_function.__enter__
    if hasattr(original, "__wrapped__"):
        return

    def __enter__(self: Any) -> Any:  # noqa: N807 - it is that method
        if self.name.startswith("Optimizer.") and not _profiler_enabled():
            self.run_callbacks_on_exit = False
            return self
        return original(self)

    __enter__.__wrapped__ = original  # type: ignore[attr-defined]
    record_function.__enter__ = __enter__
