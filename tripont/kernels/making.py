"""Making kernels: from C, from LLVM IR, from SPIR-V; and their names in the process's registry."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

from . import building
from .kernel import Kernel, ShapeRule
from .prototype import Prototype, SignatureError, read

Work = Literal["elements", "rows"]

_GRAIN: Final = {"elements": 16384, "rows": 1}
# Libraries with kernels: programs hold addresses in them.
_loaded: Final[list[ctypes.CDLL]] = []
# Of each name, what made each of the kernels that had it.
_made: Final[dict[str, list[object]]] = {}


def from_c(
    source: str,
    *,
    name: str | None = None,
    function: str | None = None,
    shapes: ShapeRule | None = None,
    work: Work = "elements",
    grain: int | None = None,
    flags: Sequence[str] = (),
    vmap_method: str | None = "sequential",
) -> Kernel:
    """A kernel from C source, compiled by the system's compiler (``$CC``, cc, gcc or clang) and kept in the cache.

    ``function``: which function of the source; by default the only one that is not static. ``name``: what
    programs call it, by default the function's name. ``shapes``: the results' shapes, from the operands'
    shapes and the attributes; by default those of the first operand. ``work``, ``grain``: for a kernel with
    ``begin`` and ``end``, what it counts (elements of the first result, or rows: its first dimension) and how
    many are worth a thread. ``flags``: more for the compiler. ``vmap_method``: see jax.ffi.ffi_call.

    A kernel of the same name made earlier is replaced, for programs that name it and are compiled from now on; calls of
    its own object still reach it.
    Raises SignatureError for a prototype that is not a kernel's or source that does not compile, RuntimeError
    if there is no compiler.
    """
    parsed = read(source, function)
    path = building.compile_c(source, parsed, flags)
    library = ctypes.CDLL(str(path))
    _loaded.append(library)
    entry = ctypes.cast(getattr(library, building.ENTRY), ctypes.c_void_p).value
    assert entry is not None
    name = name or parsed.name
    target = _register(name, parsed, str(path), entry, work, grain, None)
    return Kernel(name, parsed, shapes, vmap_method, target)


def from_llvm_ir(
    source: str,
    signature: str,
    *,
    name: str | None = None,
    shapes: ShapeRule | None = None,
    work: Work = "elements",
    grain: int | None = None,
    vmap_method: str | None = "sequential",
) -> Kernel:
    """A kernel from the text of an LLVM module; needs no compiler on the machine.

    ``signature``: the C prototype of its function, such as ``"void scale(const float* x, float* y)"``. The
    module may call LLVM's intrinsics, but no library. The rest is as for :func:`from_c`.
    """
    parsed = read(signature)
    code, imports, offset = building.compile_llvm_ir(source, parsed)
    name = name or parsed.name
    target = _register(name, parsed, code, offset, work, grain, (code, imports))
    return Kernel(name, parsed, shapes, vmap_method, target)


def from_spirv(
    module: bytes | str | os.PathLike[str],
    signature: str,
    *,
    name: str | None = None,
    function: str | None = None,
    shapes: ShapeRule | None = None,
    work: Work = "elements",
    group: int = 0,
    vmap_method: str | None = "sequential",
) -> Kernel:
    """A kernel for SYCL devices (``TRIPONT_DEVICE=sycl``): an OpenCL kernel in a SPIR-V module, or a file with one.

    ``signature``: its parameters as a C prototype of a function that returns void, such as ``"void scale(const float*
    x, int64_t x_size, float factor, float* y)"``; arrays are pointers to global memory. Each work-item finds its
    number in ``get_global_id(0)``: there are as many as the first result has elements, or with ``work="rows"`` rows.
    ``group``: work-items of a work-group; their number is then rounded up to a multiple of it, so that the kernel
    must compare its own with ``y_size``. 0 lets the device choose, and rounds nothing. ``function``: the entry point's
    name, by default the prototype's. The rest is as for :func:`from_c`.

    Raises SignatureError for what is no SPIR-V module, an entry point that it lacks (naming those that it has) or a
    prototype that such a kernel cannot have. A program that calls the kernel on the host is refused when it is loaded.
    """
    import tripont.core._tripont as _tripont

    if work not in _GRAIN:
        raise SignatureError(f"work={work!r}: expected 'elements' or 'rows'")
    parsed = read(signature)
    spirv = module if isinstance(module, bytes) else Path(module).read_bytes()
    entry_point = function or parsed.name
    building.check_spirv(spirv, entry_point, parsed)
    name = name or parsed.name
    parameters = plan(parsed)
    target = _target(name, (spirv, entry_point, tuple(parameters), work, group))
    for registered in dict.fromkeys((target, name)):
        _tripont.register_module_kernel(
            registered, "SPIR-V", spirv, entry_point, parameters, work == "rows", group
        )
    return Kernel(name, parsed, shapes, vmap_method, target)


def _register(
    name: str,
    prototype: Prototype,
    identity: object,
    entry: int,
    work: Work,
    grain: int | None,
    image: tuple[bytes, list[tuple[str, int]]] | None,
) -> str:
    """Register the kernel under its name and under its target, which is returned."""
    import tripont.core._tripont as _tripont

    if work not in _GRAIN:
        raise SignatureError(f"work={work!r}: expected 'elements' or 'rows'")
    parameters = plan(prototype)
    chosen_grain = grain if grain is not None else _GRAIN[work]
    target = _target(name, (identity, tuple(parameters), work, chosen_grain))
    for registered in dict.fromkeys((target, name)):
        _tripont.register_kernel(
            registered,
            entry,
            parameters,
            prototype.returns == "int",
            work == "rows",
            chosen_grain,
            image,
        )
    return target


def plan(prototype: Prototype) -> list[tuple[str, str, int, bool, int, int]]:
    """The parameters as the runtime is told of them."""
    return [
        (p.kind, p.name, p.array, p.of_result, p.dimension, p.type.code)
        for p in prototype.parameters
    ]


def _target(name: str, what: object) -> str:
    """What the calls of the kernel ``what`` are to call.

    The name; for another kernel of the same name the name with a number. Frameworks keep compiled programs by what is
    in them: a call of the new kernel under the old target would find the old program, and the old kernel in it.
    """
    if not name or "$" in name or "\0" in name:
        raise SignatureError(f"a kernel cannot be called {name!r}")
    made = _made.setdefault(name, [])
    if what not in made:
        made.append(what)
    number = made.index(what) + 1
    return name if number == 1 else f"{name}#{number}"
