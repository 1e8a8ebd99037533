"""Compiling kernels: C with the system's compiler, cached; LLVM IR in a process of its own; and checking SPIR-V.

Each kernel gets an entry function ``const void* tripont_entry(const uint64_t* slots)`` that takes its parameters from a
table and calls it (core/runtime/ffi/kernel.h).
"""

from __future__ import annotations

import hashlib
import os
import pickle
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tripont import helper_process

from . import storage
from .prototype import Prototype, SignatureError

ENTRY: Final = "tripont_entry"
FLAGS: Final = ("-O3", "-std=gnu11", "-fPIC", "-shared")


def c_entry(prototype: Prototype) -> str:
    """The entry function in C, to stand after the kernel's source."""
    lines, arguments = [], []
    for n, p in enumerate(prototype.parameters):
        if p.is_pointer:
            arguments.append(f"(void*)(uintptr_t)slots[{n}]")
        else:
            lines.append(f"  {p.c_type} a{n}; memcpy(&a{n}, &slots[{n}], sizeof(a{n}));")
            arguments.append(f"a{n}")
    call = f"{prototype.name}({', '.join(arguments)})"
    result = {
        "void": f"  {call};\n  return 0;",
        "int": f"  return (const void*)(intptr_t){call};",
        "text": f"  return {call};",
    }[prototype.returns]
    return "\n".join([f"const void* {ENTRY}(const uint64_t* slots) {{", *lines, result, "}\n"])


def llvm_entry(prototype: Prototype) -> str:
    """The entry function in LLVM IR. Slots hold values in their low bytes: both CPUs are little-endian."""
    lines, arguments = [f"define ptr @{ENTRY}(ptr %slots) {{"], []
    for n, p in enumerate(prototype.parameters):
        type_ = "ptr" if p.is_pointer else ("i1" if p.type.numpy == "bool" else p.type.llvm)
        lines.append(f"  %p{n} = getelementptr i64, ptr %slots, i64 {n}")
        lines.append(f"  %a{n} = load {type_}, ptr %p{n}")
        arguments.append(f"{type_} %a{n}")
    returned = {"void": "void", "int": "i32", "text": "ptr"}[prototype.returns]
    call = f"call {returned} @{prototype.name}({', '.join(arguments)})"
    lines += {
        "void": [f"  {call}", "  ret ptr null"],
        "int": [
            f"  %r = {call}",
            "  %w = sext i32 %r to i64",
            "  %t = inttoptr i64 %w to ptr",
            "  ret ptr %t",
        ],
        "text": [f"  %r = {call}", "  ret ptr %r"],
    }[prototype.returns]
    return "\n".join([*lines, "}\n"])


def c_compiler() -> list[str]:
    """The command of the C compiler: ``$CC``, else cc, gcc or clang. Raises RuntimeError if there is none."""
    given = shlex.split(os.environ.get("CC", ""))
    if given:
        return given
    for name in ("cc", "gcc", "clang"):
        if found := shutil.which(name):
            return [found]
    raise RuntimeError("no C compiler: install gcc or clang, or set CC to one")


def compile_c(source: str, prototype: Prototype, flags: Sequence[str]) -> Path:
    """The shared library with the kernel and its entry function, from the cache if it is there.

    Raises SignatureError with the compiler's messages if it refuses the source.
    """
    command = [*c_compiler(), *FLAGS, *_cpu_flags(), *flags]
    head = "#include <stdbool.h>\n#include <stddef.h>\n#include <stdint.h>\n#include <string.h>\n"
    text = f'{head}#line 1 "{prototype.name}.c"\n{source}\n{c_entry(prototype)}'
    version = subprocess.run([command[0], "--version"], capture_output=True, check=False).stdout
    key = "\0".join([*command, text]).encode() + version + _cpu()
    name = f"{prototype.name}-{hashlib.sha256(key).hexdigest()[:32]}.so"
    kept = storage.find(name, key)  # the folder may be read-only, and hold it
    if kept is not None:
        return kept
    folder = storage.writable_folder()
    library = folder / name
    if folder != storage.cache_folder() and library.is_file():  # this process built it
        return library
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        path = Path(scratch, f"{prototype.name}.c")
        path.write_text(text)
        output = Path(scratch, "kernel.so")
        done = subprocess.run(
            [*command, str(path), "-o", str(output), "-lm"],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise SignatureError(
                f"kernel {prototype.name!r} does not compile ({shlex.join(command)}):\n{done.stderr}"
            )
        storage.keep(output, library, key)
    return library


def _cpu_name() -> str:
    """The CPU to compile for: that of TRIPONT_CPU, else the one that runs this."""
    return os.environ.get("TRIPONT_CPU") or "host"


def _cpu_flags() -> list[str]:
    """Which instructions the C compiler may use. It knows the CPUs by the names that LLVM has for them."""
    name, *features = _cpu_name().split("+")
    if name == "host":
        name = "native"
    option = "-mcpu" if platform.machine() in ("aarch64", "arm64") else "-march"
    return [f"{option}={name}", *(f"-m{feature}" for feature in features)]


def _cpu() -> bytes:
    """What ``-march=native`` means here: a cache folder may be shared by machines."""
    import tripont.core._tripont as _tripont

    return " ".join([_tripont.cpu_name(), *_tripont.cpu_features()]).encode()


def compile_llvm_ir(source: str, prototype: Prototype) -> tuple[bytes, list[tuple[str, int]], int]:
    """(code, its imports, offset of the entry function) of a kernel in LLVM IR.

    LLVM runs in another process: an invalid module may end it, and frameworks bring LLVMs of their own.
    Raises SignatureError with LLVM's message.
    """
    text = f"{source}\n{llvm_entry(prototype)}"
    done = subprocess.run(
        helper_process.module_command(__name__),
        input=text.encode(),
        capture_output=True,
        check=False,
    )
    if done.returncode != 0:
        message = done.stderr.decode(errors="replace").strip()
        raise SignatureError(f"kernel {prototype.name!r} does not compile: {message}")
    code, imports, symbols = pickle.loads(done.stdout)
    return code, imports, symbols[ENTRY]


def check_spirv(module: bytes, function: str, prototype: Prototype) -> None:
    """Raises SignatureError for a module without the kernel ``function``, or a prototype that it cannot have."""
    from tripont.core.compiler import targets

    try:
        names = targets.kernel_names("SPIR-V", module)
    except ValueError as error:
        raise SignatureError(f"kernel {prototype.name!r}: {len(module)} bytes, {error}") from error
    if function not in names:
        raise SignatureError(
            f"kernel {prototype.name!r}: the SPIR-V module has no kernel {function!r}; "
            f"it has {', '.join(names) or 'none'}: give `function=`"
        )
    if prototype.returns != "void":
        raise SignatureError(f"kernel {prototype.name!r}: a kernel in SPIR-V returns void")
    for p in prototype.parameters:
        if p.kind in ("begin", "end", "dimensions") or (
            p.kind == "attribute" and p.type.numpy == "bool"
        ):
            why = {
                "begin": "a work-item finds its number itself",
                "end": "a work-item finds its number itself",
                "dimensions": "an array of dimensions lies in the host's memory; take x_dim0, x_dim1, ...",
                "attribute": "OpenCL kernels have no bool parameters; take a uint8_t",
            }[p.kind]
            raise SignatureError(
                f"kernel {prototype.name!r}: a kernel in SPIR-V cannot have {p.name!r}: {why}"
            )


def _main() -> None:
    """LLVM IR on stdin, code on stdout."""
    from tripont.core.compiler.targets.host import for_cpu

    try:
        image = for_cpu(_cpu_name()).compile_text(sys.stdin.buffer.read().decode())
    except Exception as error:  # its message is the user's, not where we were
        sys.exit(str(error))
    sys.stdout.buffer.write(pickle.dumps((image.code, image.imports, image.symbols)))


if __name__ == "__main__":
    _main()
