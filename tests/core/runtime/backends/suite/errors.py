"""Bad input: refused by name, and nothing is lost."""

from __future__ import annotations

import dataclasses

import numpy as np
from tripont.core import _tripont
from tripont.core.compiler.formats import artifact

from .context import Context, elementwise, error_of


def check_operands_that_do_not_fit(context: Context) -> None:
    program = context.program(elementwise("negate", 8))
    x = np.arange(8, dtype=np.float32)
    good, elsewhere = context.put(x), context.put(x, context.other)
    gone = context.put(x)
    gone.delete()
    for operands, words in (
        ([], "0 arguments given, the program takes 1"),
        ([good, good], "2 arguments given"),
        ([context.put(x[:4])], "has shape f32[4], the program expects f32[8]"),
        ([context.put(x.astype(np.int32))], "has shape s32[8]"),
        ([elsewhere], "is on device 1, the program runs on device 0"),
        ([gone], "deleted"),
    ):
        code, message = error_of(lambda o=operands: program.execute(context.device, o))
        assert code == "INVALID_ARGUMENT", (code, message)
        assert words in message, message
    np.testing.assert_array_equal(program.execute(context.device, [good])[0].numpy(), -x)


def check_artifacts_of_other_targets(context: Context) -> None:
    executable = artifact.deserialize(context.artifact(elementwise("negate", 8)))
    ours = context.device.target
    assert executable.target == ours
    for other in (*(b["name"] for b in _tripont.backends()), "abacus"):
        if other == ours:
            continue
        foreign = artifact.serialize(dataclasses.replace(executable, target=other))
        code, message = error_of(lambda f=foreign: _tripont.Executable.load(f))
        assert code == "FAILED_PRECONDITION"
        assert f"the artifact is for target '{other}', this device is '{ours}'" in message
        assert f"TRIPONT_DEVICE={other}" in message


def check_what_the_devices_lack(context: Context) -> None:
    executable = artifact.deserialize(context.artifact(elementwise("negate", 8)))
    features = (*executable.cpu_features, "telepathy")
    needy = artifact.serialize(dataclasses.replace(executable, cpu_features=features))
    code, message = error_of(lambda: _tripont.Executable.load(needy))
    assert code == "FAILED_PRECONDITION"
    assert "telepathy" in message
    assert "compile the program again" in message


def check_damaged_artifacts(context: Context) -> None:
    """Every prefix, and every byte changed, of a small artifact is an error; so is code that is not there."""
    data = context.artifact(elementwise("negate", 8))
    for length in (*range(0, 80, 7), len(data) // 2, len(data) - 1):
        assert error_of(lambda n=length: _tripont.Executable.load(data[:n]))[0] in {
            "INVALID_ARGUMENT",
            "FAILED_PRECONDITION",
        }
    for at in range(0, len(data), max(1, len(data) // 60)):
        changed = data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :]
        error_of(lambda c=changed: _tripont.Executable.load(c))
    executable = artifact.deserialize(data)
    empty = artifact.serialize(dataclasses.replace(executable, code=b"", imports=[]))
    assert error_of(lambda: _tripont.Executable.load(empty))[0] == "INVALID_ARGUMENT"


def check_the_process_has_one_kind_of_device(context: Context) -> None:
    for backend in _tripont.backends():
        if backend["name"] == context.device.target:
            continue
        code, message = error_of(
            lambda b=backend: _tripont.Client({"device": b["name"], "prestart_worker": False})
        )
        assert code == "FAILED_PRECONDITION"
        assert f"this process uses {context.device.target} devices already" in message
    code, message = error_of(lambda: _tripont.Client({"device": "abacus:3"}))
    assert code == "INVALID_ARGUMENT"
    assert "TRIPONT_DEVICE=abacus:3: expected host, " in message
