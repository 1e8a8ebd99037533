"""What fuzzers start from, and all inputs that ever failed: read again by the readers that they are for."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

import pytest
from tripont.core import _tripont
from tripont.core.compiler.worker import CODEC, FRAME
from tripont.core.schema import messages

from tests.core.runtime.conftest import write_script
from tests.fuzzers.targets import CORPUS, TARGETS, repaired

NATIVE = {"artifact", "compile_options"}  # that have a fuzzer in C++
REPLAYED = {"worker_messages"}


def inputs(reader: str) -> list[Path]:
    return sorted(path for path in (CORPUS / reader).iterdir() if path.suffix != ".json")


def test_every_corpus_has_a_reader() -> None:
    assert {path.name for path in CORPUS.iterdir()} == NATIVE | REPLAYED | set(TARGETS)


@pytest.mark.parametrize("reader", sorted(TARGETS))
def test_python(reader: str) -> None:
    for path in sorted((CORPUS / reader).iterdir()):
        try:
            TARGETS[reader](path.read_bytes())
        except Exception as error:
            raise AssertionError(f"{reader} of {path.name}") from error


def test_artifacts_are_refused_or_loaded() -> None:
    loaded = 0
    for path in inputs("artifact"):
        with contextlib.suppress(_tripont.StatusError):
            _tripont.Executable.load(repaired(path.read_bytes()))
            loaded += 1
    assert loaded, "the corpus is of another format: python -m tests.fuzzers.seeds writes it anew"


def test_compile_options() -> None:
    """Through the C API, with a program that nobody can read: the options are read before it."""
    from tests.pjrt.c_api import Api, PjrtError
    from tests.pjrt.host import Client
    from tripont import library_path

    api = Api(library_path())
    client = Client(api)
    try:
        for path in inputs("compile_options"):
            program = api.make(
                "PJRT_Program", code=b"x", code_size=1, format=b"none", format_size=4
            )
            data = path.read_bytes()
            with pytest.raises(PjrtError):
                api.call(
                    "PJRT_Client_Compile",
                    client=client.handle,
                    program=program,
                    compile_options=data,
                    compile_options_size=len(data),
                )
    finally:
        client.close()


def test_worker_messages(tmp_path: Path) -> None:
    """Each is said by a worker, after a proper hello unless the input's first byte says otherwise."""
    fields = CODEC.write(messages.Hello(messages.PROTOCOL_VERSION, _tripont.version(), "", ""))
    hello = FRAME.pack(messages.Hello.NUMBER, len(fields)) + fields
    for number, path in enumerate(inputs("worker_messages")):
        data = path.read_bytes()
        said = tmp_path / f"said{number}"
        said.write_bytes((hello if data[0] % 4 else b"") + data[1:])
        worker = write_script(
            tmp_path / f"worker{number}",
            f"#!{sys.executable} -S\nimport os\nos.write(3, open({str(said)!r}, 'rb').read())\n",
        )
        client = _tripont.Client({"python": worker, "cache": False, "prestart_worker": False})
        with contextlib.suppress(_tripont.StatusError):
            client.compile(b"module {}", "mlir")
