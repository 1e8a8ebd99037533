"""Exact keys of attributes."""

from __future__ import annotations

import enum
from collections import namedtuple
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tripont.core.compiler.fusion import fused
from tripont.core.compiler.fusion.fused import attributes_key
from tripont.core.compiler.ir import hlo, keys
from tripont.core.compiler.ir.dtypes import F32, S32
from tripont.core.compiler.ir.errors import CompileError
from tripont.core.compiler.ir.moves import sum_over
from tripont.core.compiler.passes.common_subexpressions import eliminate_common_subexpressions

LONG = np.zeros(2000, np.float32)
ALMOST = LONG.copy()
ALMOST[1000] = 1


@dataclass(frozen=True)
class Scaled:
    scale: float
    parts: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Single:
    value: float


@dataclass
class Mutable:
    value: float


class Level(enum.IntEnum):
    ONE = 1


Point = namedtuple("Point", "x y")

DIFFERENT = [
    (0.0, -0.0), (1.0, 1), (True, 1), (False, 0), (1.0, True), (1 + 0j, 1), (0j, complex(-0.0, 0.0)), ("1", b"1"),
    (np.float32(0.0), np.float32(-0.0)), (np.float32(1), np.float64(1)), (np.float64(1), 1.0), (np.int32(1), 1),
    (np.bool_(True), True), (ml_dtypes.bfloat16(1), np.float32(1)), ((0.0, 1), (-0.0, 1)), ((1, 2), (True, 2)),
    ((1, (2, 0.0)), (1, (2, -0.0))), ([1, 2], (1, 2)), (Point(1, 2), (1, 2)), (Level.ONE, 1), (None, ()),
    (Scaled(0.0), Scaled(-0.0)), (Scaled(1.0), Scaled(1)), (Scaled(1.0, (0.0,)), Scaled(1.0, (-0.0,))),
    (Single(0.0), Single(-0.0)), (hlo.WindowDimension(1, reversal=True), hlo.WindowDimension(1, reversal=1)),
    ({"a": 0.0}, {"a": -0.0}), ({"a": 1}, {"a": True}), ({"a": LONG}, {"a": ALMOST}), (LONG, ALMOST),
    (np.zeros(4, np.int32), np.zeros(4, np.float32)), (np.zeros((2, 3)), np.zeros((3, 2))),
    (np.zeros(2, np.int64), np.zeros(4, np.int32)), (np.dtype("f4"), np.dtype("f8")), (np.dtype("f4"), "float32"),
    (F32, S32), (hlo.Shape(F32, (2,)), hlo.Shape(S32, (2,))), (hlo.Shape(F32, (2,)), (F32, (2,))),
]  # fmt: skip


def with_value(value: Any) -> hlo.Instruction:
    return hlo.Instruction("custom-call", hlo.Shape(F32, (2,)), [], {"epsilon": value})


@pytest.mark.parametrize(("a", "b"), DIFFERENT, ids=lambda v: f"{type(v).__name__}")
def test_values_that_differ_have_different_keys(a: Any, b: Any) -> None:
    for wrap in (lambda v: v, lambda v: (3, v), lambda v: {"x": v}, Single):
        assert keys.of_value(wrap(a)) != keys.of_value(wrap(b))
    assert attributes_key(with_value(a)) != attributes_key(with_value(b))


def test_values_that_are_the_same_have_equal_keys() -> None:
    def values() -> list[Any]:
        return [
            float("nan"), np.float32("nan"), 1.5, 7, "x", b"x", None, True, (1, 2.0, ("a",)), [1, [2.0]],
            Scaled(float("nan")), {"a": np.arange(5), "b": 2.0}, np.arange(6).reshape(2, 3), np.int8(3), Level.ONE,
            Point(1, 2.0), np.dtype("f4"), hlo.DotDimensionNumbers((1,), (0,)), hlo.Shape(F32, (2, 3)),
        ]  # fmt: skip

    for a, b in zip(values(), values(), strict=True):
        assert keys.of_value(a) == keys.of_value(b)
        assert hash(keys.of_value(a)) == hash(keys.of_value(b))
    assert keys.of_value({"a": 1, "b": 2}) == keys.of_value({"b": 2, "a": 1})


@pytest.mark.parametrize("value", [object(), Mutable(1.0), (1, object()), np.array([None])])
def test_values_of_unknown_types_are_refused_by_name(value: Any) -> None:
    with pytest.raises(CompileError, match=r"'epsilon' holds a .*no exact key") as caught:
        attributes_key(with_value(value))
    assert caught.value.code == "INTERNAL"


@pytest.mark.parametrize(("a", "b"), [(0.0, -0.0), (1, 1.0), ((1, 0.0), (1, -0.0))], ids=str)
def test_common_subexpressions_are_the_same_to_the_bit(a: Any, b: Any) -> None:
    shape = hlo.Shape(F32, (2,))
    x = hlo.parameter(0, shape)
    values = [
        hlo.Instruction("broadcast", shape, [x], {"dimensions": (0,), "x": v}) for v in (a, b, a)
    ]
    root = hlo.Instruction("tuple", hlo.TupleShape((shape,) * 3), values)
    main = hlo.Computation("main", [x], [x, *values, root], root)
    after = eliminate_common_subexpressions(hlo.Module("test", main)).entry
    assert [i.attributes["x"] for i in after.root.operands] == [a, b, a]
    assert len(after.instructions) == 4
    assert after.root.operands[0] is after.root.operands[2]


def test_the_key_of_a_computation_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[hlo.Computation] = []
    key_of = fused._key_of

    def counted(computation: hlo.Computation) -> Hashable:
        made.append(computation)
        return key_of(computation)

    monkeypatch.setattr(fused, "_key_of", counted)
    total = sum_over(hlo.parameter(0, hlo.Shape(F32, (8, 4))), [0])
    assert attributes_key(total) == attributes_key(total) is not None
    assert made == list(total.called)
