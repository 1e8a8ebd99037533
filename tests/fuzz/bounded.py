"""Programs over arrays of which only the first elements are there, and what they mean.

Each program is written twice. In the one a dimension has a bound, and its size is an argument
(``stablehlo.set_dimension_size``); in the other one, which the evaluator judges by, it is as long as the argument says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

import numpy as np

from tests.fuzz.judge import Case

# The dimension that has a bound is `many` times the size plus `more`; an ordinary one has `many` 0.
_Dim = tuple[int, int]
_BOUNDS: Final = (1, 2, 3, 5, 8, 13, 40)
_NUMBERS: Final = {"i32": np.int32, "f32": np.float32, "i8": np.int8}


@dataclass(frozen=True)
class _Value:
    name: str
    element: str
    dims: tuple[_Dim, ...]

    def bounded(self, bound: int) -> str:
        """The type with ``?`` for each dimension that depends on the size."""
        sizes = ["?" if many else str(more) for many, more in self.dims]
        kind = "x".join([*sizes, self.element])
        if all(not many for many, _ in self.dims):
            return f"tensor<{kind}>"
        bounds = [str(many * bound + more) if many else "?" for many, more in self.dims]
        return f"tensor<{kind}, #stablehlo.bounds<{', '.join(bounds)}>>"

    def static(self, size: int) -> str:
        return f"tensor<{'x'.join([*(str(m * size + k) for m, k in self.dims), self.element])}>"


class _Writer:
    """Both texts, one operation at a time. ``{name}`` in a line stands for that value's type."""

    def __init__(self, chances: Random, bound: int, size: int) -> None:
        self.chances = chances
        self.bound, self.size = bound, size
        self.lines: list[str] = []
        self.known: dict[str, _Value] = {}
        self.values: list[_Value] = []

    def value(self, element: str, dims: Sequence[_Dim]) -> _Value:
        made = _Value(f"v{len(self.known)}", element, tuple(dims))
        self.known[made.name] = made
        return made

    def emit(self, text: str, element: str, dims: Sequence[_Dim]) -> _Value:
        """An operation; ``@`` in it stands for the type of its result."""
        made = self.value(element, dims)
        self.lines.append(f"%{made.name} = {text.replace('@', '{' + made.name + '}')}")
        self.values.append(made)
        return made

    def text(self, bounded: bool) -> str:
        types = {
            name: v.bounded(self.bound) if bounded else v.static(self.size)
            for name, v in self.known.items()
        }
        lines = []
        for line in self.lines:
            for name, kind in types.items():
                line = line.replace("{" + name + "}", kind)
            lines.append(line)
        return "\n".join(lines)

    def pick(self) -> _Value:
        return self.chances.choice(self.values[-6:])


def _unary(w: _Writer) -> None:
    a = w.pick()
    op = w.chances.choice(["negate", "abs", "sign"])
    w.emit(f"stablehlo.{op} %{a.name} : @", a.element, a.dims)


def _binary(w: _Writer) -> None:
    a = w.pick()
    b = w.chances.choice([v for v in w.values if (v.element, v.dims) == (a.element, a.dims)])
    ops = ["add", "subtract", "maximum", "minimum"] + ["multiply", "xor"] * (a.element[0] == "i")
    w.emit(f"stablehlo.{w.chances.choice(ops)} %{a.name}, %{b.name} : @", a.element, a.dims)


def _convert(w: _Writer) -> None:
    a = w.pick()
    if a.element == "f32":  # sums may be larger than an integer is
        return
    kind = w.chances.choice(list(_NUMBERS))
    w.emit(f"stablehlo.convert %{a.name} : ({{{a.name}}}) -> @", kind, a.dims)


def _reduce(w: _Writer) -> None:
    a = w.pick()
    if not a.dims:
        return
    over = sorted(w.chances.sample(range(len(a.dims)), w.chances.randint(1, len(a.dims))))
    op = w.chances.choice(["add", "maximum"])
    zero = "0.0" if a.element == "f32" else "0"
    first = w.value(a.element, ())
    w.lines.append(f"%{first.name} = stablehlo.constant dense<{zero}> : {{{first.name}}}")
    dims = [d for n, d in enumerate(a.dims) if n not in over]
    w.emit(
        f"stablehlo.reduce(%{a.name} init: %{first.name}) applies stablehlo.{op} across dimensions ="
        f" {over} : ({{{a.name}}}, {{{first.name}}}) -> @",
        a.element,
        dims,
    )


def _transpose(w: _Writer) -> None:
    a = w.pick()
    order = w.chances.sample(range(len(a.dims)), len(a.dims))
    dims = [a.dims[n] for n in order]
    w.emit(f"stablehlo.transpose %{a.name}, dims = {order} : ({{{a.name}}}) -> @", a.element, dims)


def _reverse(w: _Writer) -> None:
    a = w.pick()
    over = [n for n in range(len(a.dims)) if w.chances.random() < 0.5]
    w.emit(f"stablehlo.reverse %{a.name}, dims = {over} : @", a.element, a.dims)


def _concatenate(w: _Writer) -> None:
    a = w.pick()
    if not a.dims:
        return
    d = w.chances.randrange(len(a.dims))
    same = [
        v
        for v in w.values
        if v.element == a.element
        and len(v.dims) == len(a.dims)
        and all(x == y for n, (x, y) in enumerate(zip(v.dims, a.dims, strict=True)) if n != d)
    ]
    b = w.chances.choice(same)
    dims = list(a.dims)
    dims[d] = (a.dims[d][0] + b.dims[d][0], a.dims[d][1] + b.dims[d][1])
    if dims[d][0] * w.bound + dims[d][1] > 200:
        return
    w.emit(
        f"stablehlo.concatenate %{a.name}, %{b.name}, dim = {d} : ({{{a.name}}}, {{{b.name}}}) -> @",
        a.element,
        dims,
    )


def _slice(w: _Writer) -> None:
    """Along an ordinary dimension."""
    a = w.pick()
    if not a.dims or any(many for many, _ in a.dims):
        return
    parts, dims = [], []
    for _, size in a.dims:
        low = w.chances.randint(0, max(0, size - 1))
        high = w.chances.randint(low, size)
        parts.append(f"{low}:{high}")
        dims.append((0, high - low))
    w.emit(f"stablehlo.slice %{a.name} [{', '.join(parts)}] : ({{{a.name}}}) -> @", a.element, dims)


def _pad(w: _Writer) -> None:
    a = w.pick()
    low = [w.chances.choice([0, 0, 1, 2]) for _ in a.dims]
    high = [w.chances.choice([0, 0, 1, 2]) for _ in a.dims]
    one = w.value(a.element, ())
    number = "1.0" if a.element == "f32" else "1"
    w.lines.append(f"%{one.name} = stablehlo.constant dense<{number}> : {{{one.name}}}")
    dims = [(m, k + x + y) for (m, k), x, y in zip(a.dims, low, high, strict=True)]
    w.emit(
        f"stablehlo.pad %{a.name}, %{one.name}, low = {low}, high = {high}, interior = {[0] * len(low)}"
        f" : ({{{a.name}}}, {{{one.name}}}) -> @",
        a.element,
        dims,
    )


def _sort(w: _Writer) -> None:
    a = w.pick()
    if not a.dims:
        return
    d = w.chances.randrange(len(a.dims))
    s = f"tensor<{a.element}>"
    kind = "FLOAT" if a.element == "f32" else "SIGNED"
    w.emit(
        f'"stablehlo.sort"(%{a.name}) <{{dimension = {d} : i64, is_stable = true}}> ({{\n^bb0(%x: {s}, %y: {s}):\n'
        f"%c = stablehlo.compare LT, %x, %y, {kind} : ({s}, {s}) -> tensor<i1>\n"
        f"stablehlo.return %c : tensor<i1>\n}}) : ({{{a.name}}}) -> @",
        a.element,
        a.dims,
    )


def _broadcast(w: _Writer) -> None:
    """A new first dimension."""
    a = w.pick()
    if len(a.dims) > 2:
        return
    places = list(range(1, len(a.dims) + 1))
    dims = [(0, w.chances.randint(1, 3)), *a.dims]
    w.emit(
        f"stablehlo.broadcast_in_dim %{a.name}, dims = {places} : ({{{a.name}}}) -> @",
        a.element,
        dims,
    )


def _sums(w: _Writer) -> None:
    """Running sums along a dimension: a window as long as the bound."""
    a = w.pick()
    if not a.dims or a.element == "i8":
        return
    d = w.chances.randrange(len(a.dims))
    window = [1] * len(a.dims)
    window[d] = a.dims[d][0] * w.bound + a.dims[d][1]
    if not 0 < window[d] <= 60:
        return
    padding = [[window[n] - 1 if n == d else 0, 0] for n in range(len(a.dims))]
    zero = w.value(a.element, ())
    number, s = ("0.0" if a.element == "f32" else "0"), f"tensor<{a.element}>"
    w.lines.append(f"%{zero.name} = stablehlo.constant dense<{number}> : {{{zero.name}}}")
    w.emit(
        f'"stablehlo.reduce_window"(%{a.name}, %{zero.name}) <{{window_dimensions = array<i64: {str(window)[1:-1]}>,'
        f" padding = dense<{padding}> : tensor<{len(a.dims)}x2xi64>}}> ({{\n^bb0(%x: {s}, %y: {s}):\n"
        f"%z = stablehlo.add %x, %y : {s}\nstablehlo.return %z : {s}\n}}) : ({{{a.name}}}, {{{zero.name}}}) -> @",
        a.element,
        a.dims,
    )


def _dot(w: _Writer) -> None:
    """Over a dimension that both have."""
    a = w.pick()
    if not a.dims or len(a.dims) > 2 or a.element == "i8":
        return
    places = [
        (i, v, j)
        for v in w.values
        for i, d in enumerate(a.dims)
        for j, e in enumerate(v.dims)
        if v.element == a.element and len(v.dims) < 3 and d == e
    ]
    i, b, j = w.chances.choice(places)
    dims = [d for n, d in enumerate(a.dims) if n != i] + [d for n, d in enumerate(b.dims) if n != j]
    w.emit(
        f"stablehlo.dot_general %{a.name}, %{b.name}, contracting_dims = [{i}] x [{j}]"
        f" : ({{{a.name}}}, {{{b.name}}}) -> @",
        a.element,
        dims,
    )


_OPERATIONS: Final = (
    _unary, _binary, _binary, _binary, _convert, _reduce, _reduce, _transpose, _reverse, _concatenate, _concatenate,
    _slice, _pad, _sort, _sort, _broadcast, _sums, _dot,
)  # fmt: skip


def make(seed: int) -> Case:
    chances = Random(seed)
    bound = chances.choice(_BOUNDS)
    size = chances.choice([0, 1, bound, chances.randint(0, bound)])
    size = min(size, bound)
    w = _Writer(chances, bound, size)
    rank = chances.randint(1, 3)
    d = chances.randrange(rank)
    whole = [(0, chances.randint(1, 4)) for _ in range(rank)]
    whole[d] = (0, bound)
    parameters = [w.value(chances.choice(list(_NUMBERS)), whole) for _ in range(2)]
    counter = w.value("i32", ())
    heads: list[tuple[str, str]] = []
    for p in parameters:
        dims = list(whole)
        dims[d] = (1, 0)
        made = w.value(p.element, dims)
        w.values.append(made)
        limits = ", ".join(f"0:{size if n == d else s}" for n, (_, s) in enumerate(whole))
        kinds = made.bounded(bound), made.static(size), p.static(size)
        heads.append(
            (
                f"%{made.name} = stablehlo.set_dimension_size %{p.name}, %{counter.name}, dim = {d}"
                f" : ({kinds[2]}, tensor<i32>) -> {kinds[0]}",
                f"%{made.name} = stablehlo.slice %{p.name} [{limits}] : ({kinds[2]}) -> {kinds[1]}",
            )
        )
    for _ in range(chances.randint(1, 9)):
        chances.choice(_OPERATIONS)(w)
    results = [w.pick() for _ in range(chances.randint(1, 3))]
    texts = []
    for bounded in (True, False):
        kinds = [r.bounded(bound) if bounded else r.static(size) for r in results]
        given = ", ".join(f"%{p.name}: {p.static(size)}" for p in (*parameters, counter))
        begin = "\n".join(head[0 if bounded else 1] for head in heads)
        names = ", ".join(f"%{r.name}" for r in results)
        texts.append(
            f"func.func @main({given}) -> ({', '.join(kinds)}) {{\n{begin}\n{w.text(bounded)}\n"
            f"return {names} : {', '.join(kinds)}\n}}\n"
        )
    rng = np.random.default_rng(seed)
    arguments = [
        rng.integers(-4, 5, [s for _, s in whole]).astype(_NUMBERS[p.element]) for p in parameters
    ]
    return Case(texts[0], [*arguments, np.int32(size)], meaning=texts[1])
