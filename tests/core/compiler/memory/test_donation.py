"""What a program takes of what its caller offers."""

from __future__ import annotations

from typing import Any

from tripont.core.compiler.formats.artifact import Value
from tripont.core.compiler.ir.dtypes import F32
from tripont.core.compiler.ir.hlo import Shape
from tripont.core.compiler.memory.donation import donated_parameters

from tests.core.compiler.builders import module

SMALL, LARGE = Value(Shape(F32, (4,))), Value(Shape(F32, (8,)))


def donated(parameters: list[Value], results: list[Value], **offers: Any) -> tuple[int, ...]:
    return donated_parameters(module([], **offers), parameters, results)


def test_tied_parameters_are_taken() -> None:
    assert donated([LARGE, LARGE], [LARGE], input_output_aliases=((0, 1, False),)) == (1,)


def test_a_donor_that_fits_no_result_stays_its_owners() -> None:
    parameters = [SMALL, LARGE, LARGE]
    assert donated(parameters, [LARGE], buffer_donors=(0, 1, 2)) == (1,)
    assert donated(parameters, [LARGE, LARGE], buffer_donors=(0, 1, 2)) == (1, 2)
    tied = ((0, 2, True),)
    assert donated(parameters, [LARGE], input_output_aliases=tied, buffer_donors=(0, 1)) == (2,)


def test_memory_of_another_kind_does_not_fit() -> None:
    on_host = Value(Shape(F32, (8,)), "pinned_host")
    assert donated([on_host, LARGE], [on_host], buffer_donors=(0, 1)) == (0,)
