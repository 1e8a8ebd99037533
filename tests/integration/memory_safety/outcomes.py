"""What becomes of programs: ``python -m tests.integration.memory_safety.outcomes FILE...`` prints one JSON line a file.

A program is compiled in this process and run in a fork of it, between arrays of others. Reading past an array's end
shows as results that change with the neighbours' content, writing past it as neighbours that change, and both as a
signal if no memory is there.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

REFUSED: Final = "refused"  # by the compiler or the loader, with a status code that is not INTERNAL
RAN: Final = "ran"
UNENDING: Final = (
    "unending"  # still running after the time limit: an endless loop is a valid program
)
WRONG: Final = "wrong"  # everything that must not happen

_NEIGHBOURS: Final = 64
_NEIGHBOUR_ELEMENTS: Final = 64


def outcome(program: bytes, format_: str = "mlir", seconds: int = 10) -> tuple[str, str]:
    """One of the constants above and its details."""
    from tripont.core.compiler.compile import compile_program
    from tripont.core.compiler.ir.errors import CompileError

    try:
        artifact = compile_program(program, format_, b"", {})
    except CompileError as error:
        return (WRONG if error.code == "INTERNAL" else REFUSED), f"{error.code}: {error}"
    except Exception as error:
        return WRONG, f"the compiler raises {type(error).__name__}: {error}"
    return _in_a_fork(artifact, seconds)


def _in_a_fork(artifact: bytes, seconds: int) -> tuple[str, str]:
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(ours)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(seconds)
        try:
            said = _run(artifact)
        except BaseException as error:
            said = WRONG, f"{type(error).__name__}: {error}"
        os.write(theirs, json.dumps(said).encode()[:4000])
        os._exit(0)
    os.close(theirs)
    with os.fdopen(ours, "rb") as answer:
        text = answer.read()
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number == signal.SIGALRM:
            return UNENDING, f"after {seconds} s"
        return WRONG, f"killed by {signal.Signals(number).name}"
    kind, details = json.loads(text)
    return kind, details


def _run(artifact: bytes) -> tuple[str, str]:
    import numpy as np
    from tripont.core import _tripont

    from tripont.cli.run import random_array

    client = _tripont.Client({"prestart_worker": False, "cache": False, "device": "host"})
    device = client.devices[0]
    try:
        executable = _tripont.Executable.load(artifact)
    except _tripont.StatusError as error:
        return (WRONG if error.code == "INTERNAL" else REFUSED), f"the loader: {error}"
    parameters = executable.describe()["parameters"]
    seen = []
    for content in (1.0, 2.0):
        generator = np.random.default_rng(0)
        arrays = [random_array(p, generator) for p in parameters]
        other = np.full(_NEIGHBOUR_ELEMENTS, content, np.float32)

        def surround(other: np.ndarray = other) -> list[_tripont.Buffer]:
            return [_tripont.Buffer.from_array(other, device) for _ in range(_NEIGHBOURS)]

        neighbours = surround()
        arguments = []
        for array in arrays:
            arguments.append(_tripont.Buffer.from_array(array, device))
            neighbours += surround()
        for hole in neighbours[::8]:  # for the results, which then lie between arrays too
            hole.delete()
        del neighbours[::8]
        try:
            results = executable.execute(device, arguments, list(range(len(arguments))))
            seen.append([r.numpy().tobytes() for r in results])
        except _tripont.StatusError as error:
            return RAN, f"with an error: {error}"
        if any((n.numpy() != content).any() for n in neighbours):
            return WRONG, "another array was overwritten"
        if any(a.numpy().tobytes() != b.tobytes() for a, b in zip(arguments, arrays, strict=True)):
            return WRONG, "an argument was overwritten"
    if seen[0] != seen[1]:
        return WRONG, "the results depend on other arrays' content"
    return RAN, ""


def like_a_user() -> None:
    """Make sure that nothing that only tests have is at work in this process."""
    from tripont.core.compiler.ir import verifier

    if verifier.enabled():
        sys.exit("this process verifies every pass: a user's does not")


def main(files: Iterable[str]) -> None:
    like_a_user()
    for file in files:
        print(json.dumps([Path(file).name, *outcome(Path(file).read_bytes())]), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
