"""Loops, branches, calls and barriers, with operations of every kind inside."""

from __future__ import annotations

from tripont.core.compiler.ir import dtypes

from tests.conformance.programs import tensor
from tests.conformance.random_programs.arithmetic import names
from tests.conformance.random_programs.builder import Builder, Entry, operation

_DEEPEST = 2


@operation()
def loop(b: Builder) -> None:
    """A counter and some arrays, which the body mixes and may exchange."""
    if b.depth >= _DEEPEST:
        return
    state = [b.any() for _ in range(b.integer(1, 3))]
    zero, one = b.constant(dtypes.S32, 0), b.constant(dtypes.S32, 1)
    limit = b.constant(dtypes.S32, b.integer(0, 4)) if b.chance() else b.index(3)
    name = b.fresh()
    counter = Entry(f"{name}i", dtypes.S32, ())
    inside = [Entry(f"{name}s{n}", v.dtype, v.dims) for n, v in enumerate(state)]
    with b.region(counter, *inside) as lines:
        b.grow(b.integer(1, 5))
        following = [b.fit(b.any(), v.dtype, v.dims) for v in state]
        after = b.binary("add", counter, one)
    types = ", ".join(["tensor<i32>", *(v.type for v in state)])
    first = ", ".join(
        f"{x.name} = {v.name}" for x, v in zip([counter, *inside], [zero, *state], strict=True)
    )
    body = "\n".join(lines)
    given = ", ".join(v.name for v in [after, *following])
    b.lines.append(
        f"{name}:{len(state) + 1} = stablehlo.while({first}) : {types} cond {{\n"
        f"%c = stablehlo.compare LT, {counter.name}, {limit.name} : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
        f"stablehlo.return %c : tensor<i1>\n}} do {{\n{body}\nstablehlo.return {given} : {types}\n}}"
    )
    for n, v in enumerate(state):
        b.values.append(Entry(f"{name}#{n + 1}", v.dtype, v.dims))


@operation()
def search(b: Builder) -> None:
    """Many arrays, some the same, that change places or stay; the condition looks at one of them."""
    if b.depth >= _DEEPEST:
        return
    state = [b.any() for _ in range(b.integer(2, 9))]
    zero = b.constant(dtypes.S32, 0)
    name = b.fresh()
    counter = Entry(f"{name}i", dtypes.S32, ())
    inside = [Entry(f"{name}s{n}", v.dtype, v.dims) for n, v in enumerate(state)]
    looked_at = b.choose(inside)
    with b.region(counter, looked_at, outer=False) as before:
        low = b.compare("LT", counter, b.constant(dtypes.S32, b.integer(0, 5)))
        mask = b.compare("NE", b.index(7), b.constant(dtypes.S32, b.integer(0, 7)))
        go_on = b.binary("and", low, mask)
    with b.region(counter, *inside) as after:
        b.grow(b.integer(0, 3))
        following = []
        for v in inside:
            same = [w for w in inside if w.type == v.type]
            following.append(b.choose([b.choose(same), v, b.fit(b.any(), v.dtype, v.dims)]))
        counted = b.binary("add", counter, b.constant(dtypes.S32, 1))
    types = ", ".join(["tensor<i32>", *(v.type for v in state)])
    first = ", ".join(
        f"{x.name} = {v.name}" for x, v in zip([counter, *inside], [zero, *state], strict=True)
    )
    condition, body = "\n".join(before), "\n".join(after)
    given = ", ".join(v.name for v in [counted, *following])
    b.lines.append(
        f"{name}:{len(state) + 1} = stablehlo.while({first}) : {types} cond {{\n{condition}\n"
        f"stablehlo.return {go_on.name} : tensor<i1>\n}} do {{\n{body}\nstablehlo.return {given} : {types}\n}}"
    )
    for n, v in enumerate([counter, *state]):
        b.values.append(Entry(f"{name}#{n}", v.dtype, v.dims))


@operation()
def branch(b: Builder) -> None:
    """``case`` with an index that is out of bounds at times, or ``if``."""
    if b.depth >= _DEEPEST:
        return
    results = [b.any() for _ in range(b.integer(1, 2))]
    two = b.chance()
    if two:
        mask = b.compare("LT", b.index(), b.constant(dtypes.S32, b.integer(0, 8)))
    else:
        mask = b.binary("subtract", b.index(3), b.constant(dtypes.S32, b.integer(0, 1)))
    types = ", ".join(v.type for v in results)
    regions = []
    for _ in range(2 if two else b.integer(1, 3)):
        with b.region() as lines:
            b.grow(b.integer(0, 3))
            given = [b.fit(b.any(), v.dtype, v.dims) for v in results]
            text = ", ".join(v.name for v in given)
        body = "\n".join(lines)
        regions.append(f"{{\n{body}\nstablehlo.return {text} : {types}\n}}")
    name = b.fresh()
    many = f":{len(results)}" if len(results) > 1 else ""
    b.lines.append(
        f'{name}{many} = "stablehlo.{"if" if two else "case"}"({mask.name}) ({", ".join(regions)}) : ({mask.type}) -> ({types})'
    )
    for n, v in enumerate(results):
        b.values.append(Entry(f"{name}#{n}" if many else name, v.dtype, v.dims))


@operation()
def call(b: Builder) -> None:
    """A function, called once or twice."""
    if b.depth >= _DEEPEST:
        return
    given = [b.any() for _ in range(b.integer(1, 2))]
    name = b.fresh()
    inside = [Entry(f"{name}p{n}", v.dtype, v.dims) for n, v in enumerate(given)]
    with b.region(*inside, outer=False) as lines:
        b.grow(b.integer(1, 4))
        result = b.any()
    parameters = ", ".join(f"{v.name}: {v.type}" for v in inside)
    body = "\n".join(lines)
    function = f"@f{name[1:]}"
    b.functions.append(
        f"func.func private {function}({parameters}) -> {result.type} {{\n{body}\nreturn {result.name} : {result.type}\n}}"
    )
    for _ in range(b.integer(1, 2)):
        types = ", ".join(v.type for v in given)
        b.values.append(
            b.emit(
                f"func.call {function}({', '.join(v.name for v in given)}) : ({types}) -> {result.type}",
                result.dtype,
                result.dims,
            )
        )
        given = [b.like(v) for v in given]


@operation()
def mapped(b: Builder) -> None:
    a = b.any()
    if a.dtype.is_float and (a.dtype.bits <= 8 or a.dtype is dtypes.BF16):
        return  # two products in a row may not be exact
    c = b.like(a)
    s, op = tensor(a.dtype), b.choose(names(a))
    every = ", ".join(map(str, range(len(a.dims))))
    body = f"{{\n^bb0(%a: {s}, %b: {s}):\n%c = stablehlo.{op} %a, %b : {s}\n%d = stablehlo.{b.choose(names(a))} %c, %b : {s}\nstablehlo.return {b.choose(['%c', '%d'])} : {s}\n}}"
    b.keep(
        b.emit(
            f'"stablehlo.map"({a.name}, {c.name}) <{{dimensions = array<i64{": " if every else ""}{every}>}}> ({body})'
            f" : ({a.type}, {c.type}) -> {a.type}",
            a.dtype,
            a.dims,
        )
    )


@operation()
def barrier(b: Builder) -> None:
    given = [b.any() for _ in range(b.integer(1, 3))]
    types = ", ".join(v.type for v in given)
    name = b.fresh()
    many = f":{len(given)}" if len(given) > 1 else ""
    b.lines.append(
        f"{name}{many} = stablehlo.optimization_barrier {', '.join(v.name for v in given)} : {types}"
    )
    for n, v in enumerate(given):
        b.values.append(Entry(f"{name}#{n}" if many else name, v.dtype, v.dims))
