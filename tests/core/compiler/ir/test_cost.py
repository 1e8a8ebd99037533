"""Costs of programs as they were received."""

from __future__ import annotations

import pytest
from tripont.core.compiler.ir import cost
from tripont.core.compiler.ir.hlo import Instruction

from tests.core.compiler.builders import module, op, parameter, reduce


def test_traffic_of_operands_and_results() -> None:
    x = parameter(0, 8, 4)
    y = op("add", x, x)
    costs = cost.of_module(module([x], reduce(y, [0]), op("tanh", y)))
    # x twice and y; y, an initial value and the sums; y and its tanh.
    assert costs.bytes_accessed == 4 * (3 * 32 + 32 + 1 + 4 + 2 * 32)
    assert costs.transcendentals == 32
    assert costs.flops == 32 + 32 + 1


def test_the_size_of_a_result_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[Instruction] = []
    size = cost.result_bytes

    def result_bytes(instruction: Instruction) -> int:
        counted.append(instruction)
        return size(instruction)

    monkeypatch.setattr(cost, "result_bytes", result_bytes)
    x = parameter(0, 8)
    y = op("negate", x)
    for _ in range(10):
        y = op("add", y, y)
    cost.of_module(module([x], y))
    assert len(counted) == len(set(counted)) == 12
