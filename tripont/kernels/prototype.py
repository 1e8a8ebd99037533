"""Reading a kernel's C prototype: which parameters are operands, results, attributes, and what the runtime fills in."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final, Literal

from tripont.core.schema.element_types import BY_NAME, BY_STORAGE, ELEMENT_TYPES

Kind = Literal[
    "operand", "result", "attribute", "size", "rank", "dimension", "dimensions", "begin", "end"
]
Returns = Literal["void", "int", "text"]


class SignatureError(ValueError):
    """A prototype that is not a kernel's, or arguments that do not fit it."""


@dataclass(frozen=True, slots=True)
class Type:
    """A C type: NumPy's name of it ("" for void), XLA's number (0: any), LLVM's name, bytes."""

    numpy: str
    code: int
    llvm: str
    size: int


def _stored(numpy: str, llvm: str) -> Type:
    row = BY_STORAGE[numpy]
    return Type(numpy, row.number, llvm, row.bytes)


# Spelled with single spaces, without const.
_TYPES: Final[dict[str, Type]] = {
    **dict.fromkeys(("bool", "_Bool"), _stored("bool", "i8")),
    **dict.fromkeys(("int8_t", "signed char"), _stored("int8", "i8")),
    **dict.fromkeys(("int16_t", "short"), _stored("int16", "i16")),
    **dict.fromkeys(("int32_t", "int"), _stored("int32", "i32")),
    **dict.fromkeys(
        ("int64_t", "long", "long long", "ptrdiff_t", "ssize_t"), _stored("int64", "i64")
    ),
    **dict.fromkeys(("uint8_t", "unsigned char"), _stored("uint8", "i8")),
    **dict.fromkeys(("uint16_t", "unsigned short"), _stored("uint16", "i16")),
    **dict.fromkeys(("uint32_t", "unsigned", "unsigned int"), _stored("uint32", "i32")),
    **dict.fromkeys(
        ("uint64_t", "unsigned long", "unsigned long long", "size_t"), _stored("uint64", "i64")
    ),
    "_Float16": _stored("float16", "half"),
    "__bf16": _stored("bfloat16", "bfloat"),
    "float": _stored("float32", "float"),
    "double": _stored("float64", "double"),
    **dict.fromkeys(("float _Complex", "float complex"), _stored("complex64", "<2 x float>")),
    **dict.fromkeys(("double _Complex", "double complex"), _stored("complex128", "<2 x double>")),
    "void": Type("", 0, "void", 0),
}
_INTEGERS: Final = frozenset(
    t.number for t in ELEMENT_TYPES if t.kind in ("int", "uint") and t.bits >= 8
)
# What attributes can be.
_SCALARS: Final = _INTEGERS | {BY_NAME[name].number for name in ("pred", "f32", "f64")}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter. ``array``: which operand or result (``of_result``) it is, or is about."""

    name: str
    kind: Kind
    type: Type
    is_pointer: bool
    c_type: str
    array: int = 0
    of_result: bool = False
    dimension: int = 0


@dataclass(frozen=True, slots=True)
class Prototype:
    """A kernel's function."""

    name: str
    returns: Returns
    parameters: tuple[Parameter, ...] = field(default_factory=tuple)

    @property
    def operands(self) -> tuple[Parameter, ...]:
        return tuple(p for p in self.parameters if p.kind == "operand")

    @property
    def results(self) -> tuple[Parameter, ...]:
        return tuple(p for p in self.parameters if p.kind == "result")

    @property
    def attributes(self) -> tuple[Parameter, ...]:
        return tuple(p for p in self.parameters if p.kind == "attribute")


_COMMENTS: Final = re.compile(r"/\*.*?\*/|//[^\n]*|^[ \t]*#[^\n]*(?:\\\n[^\n]*)*", re.S | re.M)
_FUNCTION: Final = re.compile(
    r"(?P<head>[\w\s*]+?)\b(?P<name>[A-Za-z_]\w*)\s*\((?P<parameters>[^()]*)\)\s*(?:\{|;|$)"
)
_DROPPED: Final = frozenset(("const", "restrict", "__restrict", "__restrict__", "volatile"))
_DERIVED: Final = re.compile(r"(?P<array>\w+?)_(?P<what>size|rank|dims|dim(?P<dimension>\d+))")


def read(source: str, name: str | None = None) -> Prototype:
    """The prototype of the function ``name`` in C source (or a prototype alone); by default the only function.

    Raises SignatureError with what is wrong and where.
    """
    text = _COMMENTS.sub(" ", source)
    found = [
        match
        for match in _FUNCTION.finditer(_outermost(text))
        if _is_definition(match) and (name is None or match["name"] == name)
    ]
    if len(found) != 1:
        wanted = f"the function {name!r}" if name else "one function that is not static"
        names = ", ".join(match["name"] for match in found) or "none"
        raise SignatureError(f"a kernel's source needs {wanted}; found {names}: give `name=`")
    (match,) = found
    return Prototype(
        match["name"],
        _returns(match["head"], match["name"]),
        _parameters(match["parameters"], match["name"]),
    )


def _outermost(text: str) -> str:
    """The text with the content of braces left out."""
    depth = 0
    kept = []
    for character in text:
        if character == "}":
            depth -= 1
            if depth == 0:
                kept.append("};")
        elif character == "{":
            if depth == 0:
                kept.append("{")
            depth += 1
        elif depth == 0:
            kept.append(character)
    return "".join(kept)


def _is_definition(match: re.Match[str]) -> bool:
    words = match["head"].split()
    return bool(words) and not {"static", "return", "typedef", "else"} & set(words)


def _returns(head: str, name: str) -> Returns:
    words = [w for w in head.replace("*", " * ").split() if w not in ("inline", "extern")]
    if words == ["void"]:
        return "void"
    if words in (["int"], ["int32_t"]):
        return "int"
    if [w for w in words if w != "const"] == ["char", "*"]:
        return "text"
    raise SignatureError(
        f"kernel {name!r} returns {' '.join(words)!r}: expected void, int (0 for success) or "
        "const char* (NULL for success, else a message)"
    )


def _parameters(text: str, function: str) -> tuple[Parameter, ...]:
    """Names and types first, then what each of them is."""
    if text.split() in ([], ["void"]):
        raise SignatureError(f"kernel {function!r} has no parameters: it needs a result")
    raw = [_declaration(part, function) for part in text.split(",")]
    names = [name for name, *_ in raw]
    for name in names:
        if names.count(name) > 1:
            raise SignatureError(f"kernel {function!r} has two parameters {name!r}")
    arrays: dict[str, tuple[int, bool]] = {}
    counts = {False: 0, True: 0}
    for name, _, c_type, pointer, constant in raw:
        if pointer and not (constant and _derived(name, names) and c_type == "int64_t"):
            arrays[name] = (counts[not constant], not constant)
            counts[not constant] += 1
    if not counts[True]:
        raise SignatureError(
            f"kernel {function!r} has no result: a result is a pointer that is not const"
        )
    parameters = tuple(_classify(*item, arrays, function) for item in raw)
    if ("begin" in [p.kind for p in parameters]) != ("end" in [p.kind for p in parameters]):
        raise SignatureError(f"kernel {function!r} needs both of `begin` and `end`, or neither")
    return parameters


def _derived(name: str, names: list[str]) -> re.Match[str] | None:
    """The match if ``name`` is something about another parameter."""
    match = _DERIVED.fullmatch(name)
    return match if match and match["array"] in names else None


def _declaration(text: str, function: str) -> tuple[str, Type, str, bool, bool]:
    """(name, type, C's name of the type, pointer?, const?)"""
    words = text.replace("*", " * ").split()
    stars = words.count("*")
    constant = "const" in words[: words.index("*")] if stars else False
    plain = [w for w in words if w != "*" and w not in _DROPPED]
    if len(plain) < 2 or stars > 1 or "[" in text:
        raise SignatureError(
            f"kernel {function!r}: cannot read the parameter {text.strip()!r}; "
            "parameters look like `const float* x`, `float* y` or `float factor`"
        )
    *type_words, name = plain
    c_type = " ".join(type_words)
    known = _TYPES.get(c_type)
    if known is None or (known.code == 0 and not stars):
        raise SignatureError(
            f"kernel {function!r}: parameter {name!r} has the type {c_type!r}, which arrays and "
            f"attributes cannot have; there are {', '.join(t for t in _TYPES if t != 'void')}"
        )
    return name, known, c_type, bool(stars), constant


def _classify(
    name: str,
    type_: Type,
    c_type: str,
    pointer: bool,
    constant: bool,
    arrays: dict[str, tuple[int, bool]],
    function: str,
) -> Parameter:
    if name in arrays:
        index, of_result = arrays[name]
        kind: Kind = "result" if of_result else "operand"
        return Parameter(name, kind, type_, True, c_type, index, of_result)
    match = _derived(name, list(arrays))
    if match:
        index, of_result = arrays[match["array"]]
        if match["what"] == "dims" and pointer:
            return Parameter(name, "dimensions", type_, True, c_type, index, of_result)
        if type_.code not in _INTEGERS or type_.size < 4 or pointer:
            raise SignatureError(f"kernel {function!r}: {name!r} must be an int64_t")
        if match["dimension"] is not None:
            dimension = int(match["dimension"])
            return Parameter(name, "dimension", type_, False, c_type, index, of_result, dimension)
        if match["what"] in ("size", "rank"):
            what: Kind = "size" if match["what"] == "size" else "rank"
            return Parameter(name, what, type_, False, c_type, index, of_result)
    if name in ("begin", "end"):
        if type_.numpy not in ("int64", "uint64"):
            raise SignatureError(f"kernel {function!r}: {name!r} must be an int64_t")
        return Parameter(name, "begin" if name == "begin" else "end", type_, False, c_type)
    if type_.code not in _SCALARS:
        raise SignatureError(f"kernel {function!r}: an attribute cannot be a {c_type} ({name!r})")
    return Parameter(name, "attribute", type_, False, c_type)
