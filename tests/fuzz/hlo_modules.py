"""HloModuleProtos that no StableHLO becomes: tuples within loops and branches, layouts, fusions, shared computations.

A module is written as text, which XLA's parser makes a proto of. While it is written, NumPy computes what it means: its
numbers are integers that wrap, so that every bit is known.
"""

from __future__ import annotations

from random import Random
from typing import Final

import numpy as np
from tripont.core import _tripont
from tripont.core.compiler.compile import compile_module
from tripont.core.compiler.formats import artifact
from tripont.core.compiler.importer.program import read_program

from tests.conformance import device
from tests.fuzz import ways

_SHAPES: Final = [(3, 5), (7,), (2, 3, 4), (1, 9), (), (8, 16), (6, 6), (33,)]
_TYPES: Final = {"s32": np.int32, "u8": np.uint8, "s64": np.int64, "u32": np.uint32}
_BINARY: Final = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "and": np.bitwise_and,
    "xor": np.bitwise_xor,
}
_MOST: Final = 600


class Writer:
    """A module in the making; ``values`` are names of the entry's instructions with what they stand for."""

    def __init__(self, r: Random) -> None:
        self.r = r
        self.type = r.choice(list(_TYPES))
        self.computations: list[str] = []
        self.lines: list[str] = []
        self.values: list[tuple[str, np.ndarray]] = []
        self.count = 0
        self.scalar_of: dict[str, str] = {}

    def name(self, kind: str) -> str:
        self.count += 1
        return f"{kind}.{self.count}"

    def shape(self, a: np.ndarray, layout: bool = True) -> str:
        """The type of an array, with some layout."""
        names = {np.dtype(t): n for n, t in _TYPES.items()} | {np.dtype(bool): "pred"}
        order = list(range(a.ndim))[::-1]
        if layout and self.r.random() < 0.5:
            self.r.shuffle(order)
        order_text = f"{{{','.join(map(str, order))}}}" if a.ndim else ""
        return f"{names[a.dtype]}[{','.join(map(str, a.shape))}]{order_text}"

    def put(self, a: np.ndarray, text: str, layout: bool = True) -> str:
        name = self.name("v")
        self.lines.append(f"  {name} = {self.shape(a, layout)} {text}")
        self.values.append((name, a))
        return name

    def combiner(self, op: str) -> str:
        """A computation of two scalars, written once and shared by all that reduce with it."""
        if op not in self.scalar_of:
            name = self.scalar_of[op] = self.name("combine")
            t = f"{self.type}[]"
            self.computations.append(
                f"{name} {{\n  a = {t} parameter(0)\n  b = {t} parameter(1)\n"
                f"  ROOT c = {t} {op}(a, b)\n}}"
            )
        return self.scalar_of[op]

    def any(self) -> tuple[str, np.ndarray]:
        return self.r.choice(self.values[-4:])

    def like(self, a: np.ndarray) -> tuple[str, np.ndarray]:
        """A value of the shape of ``a``."""
        return self.r.choice([v for v in self.values if v[1].shape == a.shape])

    # ---------------------------------------------------------------------------- steps
    def binary(self) -> None:
        x, a = self.any()
        y, b = self.like(a)
        op = self.r.choice(list(_BINARY))
        self.put(_BINARY[op](a, b), f"{op}({x}, {y})")

    def copied(self) -> None:
        x, a = self.any()
        self.put(a, f"copy({x})")

    def transposed(self) -> None:
        x, a = self.any()
        order = self.r.sample(range(a.ndim), a.ndim)
        self.put(a.transpose(order), f"transpose({x}), dimensions={{{','.join(map(str, order))}}}")

    def reshaped(self) -> None:
        x, a = self.any()
        # A bitcast is a reshape where both layouts are row-major.
        flat = a.reshape(-1)
        self.put(flat, f"reshape({x})")

    def reduced(self) -> None:
        x, a = self.any()
        if not a.ndim:
            return
        op = self.r.choice(["add", "maximum", "xor"])
        start = {"add": 0, "maximum": np.iinfo(a.dtype).min, "xor": 0}[op]
        initial = self.name("initial")
        self.lines.append(f"  {initial} = {self.type}[] constant({start})")
        axis = self.r.randrange(a.ndim)
        result = _BINARY[op].reduce(a, axis=axis, dtype=a.dtype)
        text = f"reduce({x}, {initial}), dimensions={{{axis}}}, to_apply={self.combiner(op)}"
        self.put(np.asarray(result), text)

    def sliced(self) -> None:
        x, a = self.any()
        if not a.ndim or 0 in a.shape:
            return
        begin = [self.r.randrange(n) for n in a.shape]
        step = [self.r.randint(1, 2) for _ in a.shape]
        text = ", ".join(f"[{b}:{n}:{s}]" for b, n, s in zip(begin, a.shape, step, strict=True))
        place = tuple(slice(b, n, s) for b, n, s in zip(begin, a.shape, step, strict=True))
        self.put(a[place], f"slice({x}), slice={{{text}}}")

    def reversed_(self) -> None:
        x, a = self.any()
        if a.ndim:
            axis = self.r.randrange(a.ndim)
            self.put(np.flip(a, axis), f"reverse({x}), dimensions={{{axis}}}")

    def joined(self) -> None:
        x, a = self.any()
        y, b = self.like(a)
        if a.ndim and 2 * a.size <= _MOST:
            axis = self.r.randrange(a.ndim)
            self.put(np.concatenate([a, b], axis), f"concatenate({x}, {y}), dimensions={{{axis}}}")

    def body(self, a: np.ndarray, arguments: list[str]) -> tuple[list[str], str, list[str]]:
        """A few instructions on arrays of one shape, named in ``arguments``: lines, the last name, operations."""
        lines, names, ops = [], list(arguments), []
        for _ in range(self.r.randint(1, 4)):
            name, op = self.name("f"), self.r.choice(list(_BINARY))
            x, y = self.r.choice(names), self.r.choice(names)
            lines.append(f"  {name} = {self.shape(a)} {op}({x}, {y})")
            names.append(name)
            ops.append((name, op, x, y))
        return lines, names[-1], ops

    @staticmethod
    def applied(ops: list[tuple[str, str, str, str]], values: dict[str, np.ndarray]) -> np.ndarray:
        values = dict(values)
        for name, op, x, y in ops:
            values[name] = _BINARY[op](values[x], values[y])
        return values[ops[-1][0]]

    def function(
        self, a: np.ndarray
    ) -> tuple[str, list[tuple[str, str, str, str]], tuple[str, str]]:
        """A computation of two arrays like ``a``."""
        name, p, q = self.name("computation"), self.name("p"), self.name("p")
        shape = self.shape(a)
        lines, _, ops = self.body(a, [p, q])
        lines[-1] = lines[-1].replace("  ", "  ROOT ", 1)
        self.computations.append(
            f"{name} {{\n  {p} = {shape} parameter(0)\n  {q} = {shape} parameter(1)\n"
            + "\n".join(lines)
            + "\n}"
        )
        return name, ops, (p, q)

    def called(self) -> None:
        """A fusion or a call; a call's computation may have two callers."""
        x, a = self.any()
        y, b = self.like(a)
        name, ops, (p, q) = self.function(a)
        kind = self.r.choice(["fusion", "call", "twice"])
        if kind == "fusion":
            self.put(self.applied(ops, {p: a, q: b}), f"fusion({x}, {y}), kind=kLoop, calls={name}")
            return
        result = self.applied(ops, {p: a, q: b})
        first = self.put(result, f"call({x}, {y}), to_apply={name}")
        if kind == "twice":
            self.put(self.applied(ops, {p: b, q: result}), f"call({y}, {first}), to_apply={name}")

    def looped(self) -> None:
        """A while whose state is one tuple; sometimes a part of it goes through unchanged, or two change places."""
        x, a = self.any()
        y, b = self.like(a)
        trips, swaps = self.r.randint(0, 4), self.r.random() < 0.5
        shape = self.shape(a)
        state = f"(s32[], {shape}, {shape})"
        condition, body = self.name("condition"), self.name("body")
        self.computations.append(
            f"{condition} {{\n  s = {state} parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n"
            f"  n = s32[] constant({trips})\n  ROOT c = pred[] compare(i, n), direction=LT\n}}"
        )
        lines, last, ops = self.body(a, ["x", "y"])
        second = "x" if swaps else "y"
        self.computations.append(
            f"{body} {{\n  s = {state} parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n"
            f"  x = {shape} get-tuple-element(s), index=1\n  y = {shape} get-tuple-element(s), index=2\n"
            f"  one = s32[] constant(1)\n  next = s32[] add(i, one)\n"
            + "\n".join(lines)
            + f"\n  ROOT t = {state} tuple(next, {last}, {second})\n}}"
        )
        zero, packed, loop = self.name("zero"), self.name("state"), self.name("loop")
        cast = [self.name("x"), self.name("y")]
        self.lines += [
            f"  {zero} = s32[] constant(0)",
            f"  {cast[0]} = {shape} copy({x})",
            f"  {cast[1]} = {shape} copy({y})",
            f"  {packed} = {state} tuple({zero}, {cast[0]}, {cast[1]})",
            f"  {loop} = {state} while({packed}), condition={condition}, body={body}",
        ]
        one, two = a, b
        for _ in range(trips):
            one, two = self.applied(ops, {"x": one, "y": two}), one if swaps else two
        for index, value in ((1, one), (2, two)):
            name = self.name("v")
            self.lines.append(f"  {name} = {shape} get-tuple-element({loop}), index={index}")
            self.values.append((name, value))

    def branched(self) -> None:
        """A conditional on a number of a value, whose branches take and give tuples."""
        x, a = self.any()
        y, b = self.like(a)
        shape = self.shape(a)
        branches = []
        for _ in range(self.r.randint(1, 3)):
            name = self.name("branch")
            lines, last, ops = self.body(a, ["x", "y"])
            self.computations.append(
                f"{name} {{\n  s = ({shape}, {shape}) parameter(0)\n"
                f"  x = {shape} get-tuple-element(s), index=0\n  y = {shape} get-tuple-element(s), index=1\n"
                + "\n".join(lines)
                + f"\n  ROOT t = ({shape}, {shape}) tuple({last}, x)\n}}"
            )
            branches.append((name, ops))
        number = self.r.randint(-1, len(branches))
        which, cast = self.name("which"), [self.name("x"), self.name("y")]
        packed, made = self.name("packed"), self.name("made")
        self.lines += [
            f"  {which} = s32[] constant({number})",
            f"  {cast[0]} = {shape} copy({x})",
            f"  {cast[1]} = {shape} copy({y})",
            f"  {packed} = ({shape}, {shape}) tuple({cast[0]}, {cast[1]})",
            f"  {made} = ({shape}, {shape}) conditional({which}{f', {packed}' * len(branches)}), "
            f"branch_computations={{{', '.join(n for n, _ in branches)}}}",
        ]
        # An index that is none of theirs means the last branch.
        ops = branches[number if 0 <= number < len(branches) else -1][1]
        for index, value in ((0, self.applied(ops, {"x": a, "y": b})), (1, a)):
            name = self.name("v")
            self.lines.append(f"  {name} = {shape} get-tuple-element({made}), index={index}")
            self.values.append((name, value))


def make(seed: int) -> tuple[str, list[np.ndarray], list[np.ndarray]]:
    """Text of a module, its arguments and what it gives."""
    r = Random(seed)
    w = Writer(r)
    shape = r.choice(_SHAPES)
    numbers = np.random.default_rng(seed)
    arguments = [numbers.integers(0, 200, shape).astype(_TYPES[w.type]) for _ in range(2)]
    for number, a in enumerate(arguments):
        w.put(a, f"parameter({number})", layout=False)  # another one would be the caller's
    steps = [
        w.binary, w.copied, w.transposed, w.reshaped, w.reduced, w.sliced, w.reversed_, w.joined, w.called, w.called,
        w.looped, w.branched,
    ]  # fmt: skip
    with np.errstate(over="ignore"):
        for _ in range(r.randint(2, 12)):
            r.choice(steps)()
    results = w.values[-2:]
    shapes = ", ".join(w.shape(a, False) for _, a in results)
    casts = [w.name("r") for _ in results]
    for cast, (name, a) in zip(casts, results, strict=True):
        w.lines.append(f"  {cast} = {w.shape(a, False)} copy({name})")
    w.lines.append(f"  ROOT root = ({shapes}) tuple({', '.join(casts)})")
    entry = "\n".join(w.lines)
    computations = "\n\n".join(w.computations)
    text = f"HloModule random\n\n{computations}\n\nENTRY main {{\n{entry}\n}}\n"
    return text, arguments, [a for _, a in results]


def findings(seed: int) -> list[str]:
    """What is wrong with the module of a seed. Raises for one that is refused."""
    text, arguments, expected = make(seed)
    proto = device.as_hlo(text)
    device.devices()
    module = read_program(proto, "hlo")
    executable = _tripont.Executable.load(
        artifact.serialize(compile_module(module, dict(device.OPTIONS)))
    )
    found = []
    for way, donate in (("compiled", False), ("donated", True)):
        results = ways.run(executable, arguments, donate)
        found += [
            f"{way}: result {n}: {got!r} instead of {want!r}"
            for n, (got, want) in enumerate(zip(results, expected, strict=True))
            if got.dtype != want.dtype or got.shape != want.shape or not np.array_equal(got, want)
        ]
    return found
