"""Readers of bytes that come from outside, one function each: it returns, or raises what is wrong.

A reader may refuse its input by the errors that it documents. Every other exception is a fault, as are hangs and
memory without end, which the fuzzer finds (``make fuzz-native``). The corpora in ``corpus/`` hold a few inputs of each
reader, and all that ever failed; the test suite reads them again (``test_corpora.py``).
"""

from __future__ import annotations

import contextlib
import json
import struct
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

CORPUS: Final = Path(__file__).parent / "corpus"


def repaired(data: bytes) -> bytes:
    """An artifact with size and checksum made right, so that damage gets past them."""
    return data[:12] + struct.pack("<IQ", zlib.crc32(data[24:]), len(data)) + data[24:]


def artifact_reader(data: bytes) -> None:
    """The Python reader of artifacts."""
    from tripont.core.compiler.formats import artifact

    with contextlib.suppress(artifact.ArtifactError):
        artifact.deserialize(repaired(data))


def hlo_proto(data: bytes) -> None:
    """What is done to an HloModuleProto before jaxlib reads it."""
    from tripont.core.compiler.importer import hlo_module
    from tripont.core.compiler.ir.errors import CompileError
    from tripont.core.compiler.sizes import bounded_shapes

    for read in (
        hlo_module.buffer_donors,
        hlo_module.modernize,
        hlo_module.convertible,
        bounded_shapes.without_computed_sizes,
    ):
        try:
            read(data)
        except ValueError:
            pass
        except CompileError as error:
            if error.code == "INTERNAL":
                raise


def bytecode_envelope(data: bytes) -> None:
    """The header and the sections of MLIR bytecode."""
    from tripont.core.compiler.importer import bytecode
    from tripont.core.compiler.ir.errors import CompileError

    program = bytecode.MAGIC + data
    for read in (bytecode.producer, bytecode.check_envelope):
        try:
            read(program)
        except CompileError as error:
            if error.code != "INVALID_ARGUMENT":
                raise


def worker_request(data: bytes) -> None:
    """A request to the compile worker: whatever it is, it is answered."""
    from tripont.core.compiler import worker

    def compile_program(
        program: bytes, format: str, proto: bytes, options: dict[str, str]
    ) -> bytes:
        return program

    response = worker.handle(bytearray(data), compile_program)
    if not isinstance(response.artifact, bytes) or (response.code and not response.message):
        raise AssertionError(f"answered with {response}")


def explained_dump(data: bytes) -> None:
    """``tripont explain`` of a dump folder whose description is ``data``."""
    from tripont.explain.dump_folder import ExplainError, choose, read_folder
    from tripont.explain.measure import Timeline
    from tripont.explain.page import write_page
    from tripont.explain.report import build

    with tempfile.TemporaryDirectory(prefix="tripont-fuzz-") as folder:
        (Path(folder) / "module_0001.main.module.json").write_bytes(data)
        with contextlib.suppress(ExplainError):
            module = choose(read_folder(Path(folder)), "")
            write_page(build(module, Timeline(reason="not run")))


def explained_description(data: bytes) -> None:
    """The same, of a description in which a few values are replaced: ``data`` is read as pairs of a place and a value.

    Damage of bytes hardly ever gets past the reader of JSON.
    """
    description = json.loads((CORPUS / "explained_dump" / "example.json").read_text())
    places: list[tuple[Any, Any]] = []

    def collect(value: Any) -> None:
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, inner in list(items):
            places.append((value, key))
            if isinstance(inner, dict | list):
                collect(inner)

    collect(description)
    values: tuple[Any, ...] = (None, -1, 0, 1 << 70, "", "x", [], {}, [[]], 0.5, True, ["x"])
    for i in range(0, len(data) - 2, 3):
        container, key = places[(data[i] << 8 | data[i + 1]) % len(places)]
        with contextlib.suppress(KeyError, IndexError, TypeError):
            if data[i + 2] == 255:
                del container[key]
            else:
                container[key] = values[data[i + 2] % len(values)]
    explained_dump(json.dumps(description).encode())


TARGETS: Final[dict[str, Callable[[bytes], None]]] = {
    target.__name__: target
    for target in (
        artifact_reader,
        hlo_proto,
        bytecode_envelope,
        worker_request,
        explained_dump,
        explained_description,
    )
}
