"""Which calls of PyTorch's table of operators are recorded though they cannot be computed: a line of each on stdout.

Each operator's first sample is called in some dtypes, and the inputs that its CPU kernel refuses. What is recorded is
translated to HLO, and not compiled: what only tripont's compiler refuses is not seen. Before each call a line says
which it is: where the process ends, it is the last one.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator
from typing import Any

import torch
import torch_xla

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from .operators import OPERATORS, dtype_of, map_tensors, tensors

CALL = "call "
LATE = "late "

_DTYPES = (torch.float32, torch.int64, torch.bool, torch.complex64, torch.bfloat16, torch.uint8)
_NUM_ERRORS = 12


def _arguments(sample: Any) -> tuple[Any, ...]:
    return sample.input, sample.args, sample.kwargs


def _cases(operator: Any) -> Iterator[tuple[str, Any]]:
    """The input, the other arguments and the named ones on the CPU, and what they are."""
    own = dtype_of(operator)
    sample = next(iter(operator.sample_inputs("cpu", own, requires_grad=False)))
    for dtype in _DTYPES:

        def converted(t: torch.Tensor, dtype: torch.dtype = dtype) -> torch.Tensor:
            return t.to(dtype) if t.dtype in (own, torch.float32, torch.complex64) else t

        yield str(dtype).removeprefix("torch."), map_tensors(converted, _arguments(sample))
    if operator.error_inputs_func is not None:
        refused = itertools.islice(operator.error_inputs("cpu"), _NUM_ERRORS)
        for number, error in enumerate(refused):
            yield f"error {number}", _arguments(error.sample_input)


def _is_late(operator: Any, arguments: tuple[Any, ...]) -> bool:
    """Whether the call is recorded, and refused when it is translated."""
    try:
        x, more, named = map_tensors(lambda t: t.to("xla"), arguments)
        result = operator.op(x, *more, **named)
    except Exception:
        return False
    recorded = [t for t in tensors(result) if t.device.type == "xla"]
    try:
        torch_xla._XLAC._get_xla_tensors_hlo_proto(recorded)
    except RuntimeError:
        return True
    return False


def main() -> None:
    for name, operator in OPERATORS.items():
        for case, arguments in _cases(operator):
            print(f"{CALL}{name} {case}", flush=True)
            if _is_late(operator, arguments):
                print(f"{LATE}{name} {case}", flush=True)
