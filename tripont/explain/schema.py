"""Which fields a ``module.json`` has, and of which types: checked before anything is read of it.

A dump comes from others, and a page is made of nearly all its fields. docs/dumps.md says what the fields mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

# A rule is a type (``float`` means any finite number), a list of one rule for all elements, a dictionary of fields, of
# which those whose names end with "?" may be missing, or a tuple of a rule and None. Other fields are left alone.
_SOURCE: Final = {"op_name": str, "file": str, "line": int}
_ARRAY: Final = {
    "name": str,
    "shape": str,
    "allocation": int,
    "offset": int,
    "size": int,
    "alive": ([(int, None)], None),
}
_THUNK: Final[dict[str, Any]] = {
    "number": int,
    "kind": str,
    "operation": (str, None),
    "kernel?": str,
    "library_call?": str,
    "cost_ns?": (float, None),
    "work_count?": int,
}
_THUNK.update({"condition?": [_THUNK], "body?": [_THUNK], "branches?": [[_THUNK]]})
_OPERATION: Final = {
    "id": str,
    "name": str,
    "computation": str,
    "opcode": str,
    "kind": str,
    "library_call": str,
    "fused_computation": str,
    "shape": str,
    "kernels": [str],
    "thunk": int,
    "source": (_SOURCE, None),
    "sources": [{"file": str, "line": int, "instructions": int, "op_names": [str]}],
    "instructions": int,
    "operands": [_ARRAY],
    "results": [_ARRAY],
    "flops": (float, None),
    "transcendentals": (float, None),
    "bytes_read": int,
    "bytes_written": int,
}
_DESCRIPTION: Final = {
    "name": str,
    "target": str,
    "triple": str,
    "cpu": str,
    "tripont?": str,
    "cpu_features": [str],
    "costs": {
        "flops": float,
        "transcendentals": float,
        "bytes_accessed": float,
        "nanoseconds": float,
    },
    "allocations": [{"kind": str, "index": int, "size": int, "aliased_parameter": int}],
    "parameters": [{"name": str, "shape": str, "source": (_SOURCE, None)}],
    "operations": [_OPERATION],
    "kernels": [{"name": str, "operations": [str], "calls": [str]}],
    "thunks": [_THUNK],
    "notes?": [str],
    "passes?": [dict],
}
# JSON can say NaN, Infinity, and integers that are no floating-point number.
_LARGEST: Final = 1e300
_NAMES: Final = {str: "text", int: "a whole number", float: "a number", dict: "an object"}


def mistake(description: Mapping[str, Any]) -> str:
    """What is wrong with the description of a finished module, with its place; empty if nothing is."""
    if found := _mistake(description, _DESCRIPTION, ""):
        return found
    files = description.get("files", {})
    if found := _mistake(files, dict, "files") or _mistake([*files.values()], [str], "files"):
        return found
    count = 0

    def misnumbered(thunks: list[dict[str, Any]]) -> bool:
        nonlocal count
        for thunk in thunks:
            if thunk["number"] != count:
                return True
            count += 1
            for inner in (
                thunk.get("condition", []),
                thunk.get("body", []),
                *thunk.get("branches", []),
            ):
                if misnumbered(inner):
                    return True
        return False

    if misnumbered(description["thunks"]):
        return "the thunks are not numbered depth first"
    if any(not -1 <= operation["thunk"] < count for operation in description["operations"]):
        return "an operation names a thunk that does not exist"
    return ""


def _mistake(value: Any, rule: Any, place: str) -> str:
    if isinstance(rule, tuple):
        return "" if value is None else _mistake(value, rule[0], place)
    if isinstance(rule, list):
        if not isinstance(value, list):
            return f"{place} is not a list"
        inside = (_mistake(v, rule[0], f"{place}[{n}]") for n, v in enumerate(value))
        return next((f for f in inside if f), "")
    if isinstance(rule, dict):
        if not isinstance(value, dict):
            return f"{place} is not an object"
        for field, inner in rule.items():
            name = field.removesuffix("?")
            at = f"{place}.{name}" if place else name
            if name not in value:
                if field == name:
                    return f"{at} is missing"
            elif found := _mistake(value[name], inner, at):
                return found
        return ""
    if rule is float:
        good = isinstance(value, int | float) and -_LARGEST <= value <= _LARGEST
    else:
        good = isinstance(value, rule)
    return "" if good and not isinstance(value, bool) else f"{place} is not {_NAMES[rule]}"
