"""Random numbers."""

from __future__ import annotations

from typing import Final

from ..formats import hlo_records
from ..formats.hlo_proto import Field
from ..formats.wire_format import integer
from ..importer import hlo_instructions, ops_control, ops_optimized
from ..ir.hlo import AnyShape, Instruction, Shape, TupleShape
from ..ir.registry import NEVER, Absent, both, read_as, register
from ..ir.shape_rules import array_of, arrays_of, require
from .kernels import kernel


def _rng_bit_generator_shape(instruction: Instruction) -> AnyShape:
    elements = instruction.result_shapes
    require(len(elements) == 2, "the results are not a state and bits")
    require(
        instruction.attributes["algorithm"] in hlo_records.RNG_ALGORITHMS,
        "unknown algorithm",
    )
    return TupleShape((array_of(instruction), elements[1]))


def _check_rng(instruction: Instruction) -> None:
    low, high = arrays_of(instruction)
    require(
        low == high == Shape(instruction.dtype),
        "the operands are not scalars of the result's dtype",
    )
    require(instruction.attributes["distribution"] in ("uniform", "normal"), "unknown distribution")


def _rng_fields(i: Instruction) -> bytes:
    number = hlo_records.DISTRIBUTIONS.index(i.attributes["distribution"])
    return integer(Field.DISTRIBUTION, number)


def _rng_bit_generator_fields(i: Instruction) -> bytes:
    number = hlo_records.RNG_ALGORITHMS.index(i.attributes["algorithm"])
    return integer(Field.RNG_ALGORITHM, number)


_RANDOM: Final = Absent("its numbers are random")

read_as({"mhlo.xla.rng_get_and_update_state": ops_optimized.read_rng_state})
register(  # algorithm: "THREE_FRY" | "PHILOX" | "DEFAULT"; state u64[k] -> (new state, bits)
    "rng-bit-generator",
    operands=1,
    attributes=("algorithm",),
    shape=_rng_bit_generator_shape,
    evaluate=_RANDOM,
    kernel=kernel("rng"),
    from_hlo=hlo_instructions.rng_bit_generator,
    read=both(rng_bit_generator=ops_control.read_rng_bit_generator),
    fields=_rng_bit_generator_fields,
    text={"algorithm": lambda name, value: f"algorithm=rng_{value.lower()}"},
)
register(  # distribution: "uniform" (low, high) | "normal" (mean, deviation)
    "rng",
    operands=2,
    attributes=("distribution",),
    side_effect=True,
    shape=Absent("the program says it"),
    check=_check_rng,
    evaluate=_RANDOM,
    code=Absent("passes/random.py expands it"),
    from_hlo=hlo_instructions.rng,
    read=both(rng=ops_control.read_rng),
    fields=_rng_fields,
    text={"distribution": lambda name, value: f"distribution=rng_{value}"},
    folding=NEVER,
)
