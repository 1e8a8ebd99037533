"""Programs made small: operations and results that a failure does not need are left out."""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable, Iterator
from typing import Any

from jaxlib.mlir import ir
from tripont.core.compiler.importer import bindings

from tests.fuzz.judge import Case


@functools.cache
def _context() -> ir.Context:
    return bindings._new_context()


def shrunk(
    case: Case, fails: Callable[[Case], bool], most: int = 400, seconds: float = 300.0
) -> Case:
    """A case with fewer operations and results of which ``fails`` is still true.

    ``most``: how often to ask. ``seconds``: after which nothing is asked any more. A case with a judge of its own,
    which knows nothing of smaller programs, stays as it is.
    """
    if case.own is not None:
        return case
    end = time.monotonic() + seconds
    small = dataclasses.replace(case, text=_printed(case.text), judged="")
    if not fails(small):  # the interpreter's own text is needed, or how the text was written
        return case
    asked, progress = 1, True
    while progress:
        progress = False
        position = 0
        while (candidate := _candidate(small.text, position)) is not None:
            position += 1
            for text in candidate:
                if asked >= most or time.monotonic() >= end:
                    return small
                asked += 1
                tried = dataclasses.replace(small, text=text)
                if fails(tried):
                    small, progress = tried, True
                    position -= 1
                    break
    return small


def _printed(text: str) -> str:
    with _context(), ir.Location.unknown():
        return str(ir.Module.parse(text))


def _candidate(text: str, position: int) -> list[str] | None:
    """Smaller programs that change one place: the results first, then each operation from the last one on."""
    with _context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        count = len(list(_returned(module)))
        operations = len(list(_operations(module)))
    if position < count:
        return [t for t in [_without_result(text, position)] if t]
    if position - count >= operations:
        return None
    choices = (_with_replaced(text, position - count, choice) for choice in range(3))
    return [t for t in choices if t]


def _main(module: ir.Module) -> Any:
    return next(
        f for f in module.body.operations if ir.StringAttr(f.attributes["sym_name"]).value == "main"
    )


def _returned(module: ir.Module) -> Iterator[Any]:
    block = _main(module).regions[0].blocks[0]
    return iter(list(block.operations)[-1].operands)


def _operations(module: ir.Module) -> Iterator[Any]:
    """Those with results, outermost first and the last one of a block first."""

    def visit(block: Any) -> Iterator[Any]:
        for operation in reversed(list(block.operations)):
            if len(operation.results):
                yield operation
        for operation in reversed(list(block.operations)):
            for region in operation.regions:
                for inner in region.blocks:
                    yield from visit(inner)

    for function in module.body.operations:
        yield from visit(function.regions[0].blocks[0])


def _without_result(text: str, number: int) -> str:
    with _context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        function = _main(module)
        block = function.regions[0].blocks[0]
        terminator = list(block.operations)[-1]
        operands = list(terminator.operands)
        if len(operands) < 2:
            return ""
        del operands[number]
        with ir.InsertionPoint(terminator):
            ir.Operation.create("func.return", operands=operands)
        terminator.operation.erase()
        kind = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
        changed = ir.FunctionType.get(kind.inputs, [o.type for o in operands])
        function.attributes["function_type"] = ir.TypeAttr.get(changed)
        for name in ("arg_attrs", "res_attrs"):  # aliases name results by number
            if name in function.attributes:
                del function.attributes[name]
        return _cleaned(module)


def _with_replaced(text: str, number: int, choice: int) -> str:
    """The results of an operation replaced by an earlier value (0: the nearest, 1: the farthest) or a constant (2)."""
    with _context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        operation = list(_operations(module))[number]
        if choice == 2 and operation.operation.name == "stablehlo.constant":
            return ""
        for result in list(operation.results):
            value = _earlier(operation, result.type, choice)
            if value is None:
                return ""
            result.replace_all_uses_with(value)
        return _cleaned(module)


def _earlier(operation: Any, kind: Any, choice: int) -> Any:
    if choice == 2:
        shaped = kind if isinstance(kind, ir.RankedTensorType) else None
        if shaped is None:
            return None
        try:
            zero = ir.Attribute.parse(f"dense<{_zero(shaped.element_type)}> : {kind}")
        except Exception:  # a type whose zero is written otherwise
            return None
        with ir.InsertionPoint(operation):
            return ir.Operation.create(
                "stablehlo.constant", results=[kind], attributes={"value": zero}
            ).results[0]
    block = operation.operation.block
    values = [a for a in block.arguments if a.type == kind]
    for earlier in block.operations:
        if earlier == operation:
            break
        values += [r for r in earlier.results if r.type == kind]
    if not values or (choice == 1 and len(values) == 1):
        return None
    return values[-1] if choice == 0 else values[0]


def _zero(element: Any) -> str:
    text = str(element)
    if text.startswith("complex"):
        return "(1.0, 0.0)"
    return "true" if text == "i1" else "1.0" if text[0] in "fb" else "1"


def _erase_unused(block: Any) -> None:
    """Without what nothing uses: the last operation first, so that what it used goes too."""
    for operation in reversed(list(block.operations)):
        if operation.results and all(next(iter(r.uses), None) is None for r in operation.results):
            operation.operation.erase()
            continue
        for region in operation.regions:
            for inner in region.blocks:
                _erase_unused(inner)


def _cleaned(module: ir.Module) -> str:
    """Without operations and functions that nothing uses."""
    for function in module.body.operations:
        _erase_unused(function.regions[0].blocks[0])
    text = str(module)
    for function in list(module.body.operations):
        name = ir.StringAttr(function.attributes["sym_name"]).value
        if name != "main" and text.count(f"@{name}(") == 1:
            function.operation.erase()
    return str(module)
