"""Cost model: what one execution of a program takes, as PJRT's cost analysis reports it."""

from __future__ import annotations

import math
from collections.abc import Iterable

from tripont.core.schema.artifact import Costs

from .hlo import Instruction, Module, Shape
from .registry import OPS
from .trip_counts import known_trip_count


def of_module(module: Module) -> Costs:
    """Arithmetic and memory traffic of the program as it was received, loops counted once or their
    trip count.
    """
    costs = Costs()
    factor = {module.entry: 1.0}
    for computation in reversed(module.computations()):
        times = factor.get(computation, 1.0)
        sizes: dict[Instruction, int] = {}
        for instruction in computation.instructions:
            for callee in instruction.called:
                factor[callee] = factor.get(callee, 0.0) + times * _runs(instruction)
            size = sizes[instruction] = result_bytes(instruction)
            if OPS[instruction.opcode].counted:
                size += sum(map(sizes.__getitem__, instruction.operands))
                costs.bytes_accessed += times * size
                _add_arithmetic(costs, instruction, times)
    return costs


def _runs(instruction: Instruction) -> float:
    """How often an instruction runs what it calls."""
    if instruction.opcode == "while":
        return float(
            max(1, instruction.attributes.get("trip_count", known_trip_count(instruction)))
        )
    if instruction.opcode == "conditional":
        return 1.0 / max(1, len(instruction.called))
    if OPS[instruction.opcode].counts_bodies:
        return 0.0
    return 1.0


def array_shapes(values: Iterable[Instruction]) -> list[Shape]:
    """The shapes of the arrays among the results of ``values``."""
    return [s for value in values for s in value.result_shapes if isinstance(s, Shape)]


def result_elements(instruction: Instruction) -> float:
    """The number of elements of all results."""
    if isinstance(instruction.shape, Shape):  # nearly always
        return float(instruction.shape.elements)
    return float(sum(s.elements for s in array_shapes([instruction])))


def elements_of_operands(instruction: Instruction) -> float:
    """The number of elements of all operands: what a reduction's arithmetic is counted as."""
    return float(sum(s.elements for s in array_shapes(instruction.operands)))


def result_bytes(instruction: Instruction) -> int:
    """The bytes of all results that are arrays."""
    shape = instruction.shape
    if isinstance(shape, Shape):  # nearly always
        return shape.bytes
    return sum([s.bytes for s in instruction.result_shapes if isinstance(s, Shape)])


def _add_arithmetic(costs: Costs, instruction: Instruction, times: float) -> None:
    op = OPS[instruction.opcode]
    if not op.counted:
        return
    if op.transcendental:
        costs.transcendentals += times * result_elements(instruction)
    elif op.flops is not None:
        costs.flops += times * op.flops(instruction)
    elif op.elementwise:
        costs.flops += times * result_elements(instruction)


def arithmetic(instructions: Iterable[Instruction]) -> Costs:
    """Arithmetic of one run of each of ``instructions``."""
    costs = Costs()
    for instruction in instructions:
        _add_arithmetic(costs, instruction, 1.0)
    return costs


def of_operation(instruction: Instruction) -> Costs | None:
    """Arithmetic of one run of what became a thunk; None where it is not known (loops, the user's code)."""
    if instruction.opcode == "fusion":
        if instruction.attributes["kind"] in ("while", "chain"):
            return of_module(Module("", instruction.called[0]))
        return arithmetic(instruction.called[0].instructions)
    if OPS[instruction.opcode].runs_thunks or instruction.opcode == "custom-call":
        return None
    if instruction.opcode != "library-call":
        return arithmetic([instruction])
    return of_library_call(instruction)


def of_library_call(call: Instruction) -> Costs | None:
    """Arithmetic of a call: of products, convolutions (products with padding included), Fourier transforms (5 n log n,
    as FFTW counts), Cholesky factors, their gradients and triangular solves. None for calls that have none to speak of,
    and for others.
    """
    name, config = call.attributes["name"], call.attributes["config"]
    result = call.result_shapes[0]
    if not isinstance(result, Shape):
        return None
    per_product = 8.0 if result.dtype.is_complex else 2.0
    match name:
        case "gemm" if {"m", "n", "k"} <= set(config):
            return Costs(flops=per_product * result.elements * config["k"])
        case "convolution":
            outputs, weights = config["dst_dimensions"], config["weights_dimensions"]
            each = math.prod(weights) / max(1, outputs[1])
            return Costs(flops=per_product * math.prod(outputs) * each)
        case "fft":
            elements = max(math.prod(call.operands[0].dims), result.elements)
            each = 5.0 * math.log2(max(1, math.prod(config["fft_length"])))
            return Costs(flops=elements * each / (2 if "R" in config["fft_type"] else 1))
        case "cholesky":
            return Costs(flops=per_product * result.elements * result.dims[-1] / 6)
        case "cholesky-gradient":
            part = 3 if config["symmetric"] else 1.2
            return Costs(flops=per_product * result.elements * result.dims[-1] / part)
        case "triangular-solve":
            part = 6 if config.get("triangular_b") else 2
            return Costs(flops=per_product * result.elements * call.operands[0].dims[-1] / part)
    return None
