"""Donated operands: gone for the caller, their memory the result's, and nobody else sees it change."""

from __future__ import annotations

import numpy as np

from .context import Context, elementwise, error_of

#: Runs on the caller's thread, and on the stream.
SIZES = (1000, 3_000_000)


def check_a_donated_operand_is_gone(context: Context) -> None:
    for size in SIZES:
        program = context.program(elementwise("negate", size))
        assert program.describe()["donatable_parameters"] == [0]
        x = np.arange(size, dtype=np.float32)
        operand = context.put(x)
        (result,) = program.execute(context.device, [operand])
        assert operand.is_deleted
        np.testing.assert_array_equal(result.numpy(), -x)
        code, message = error_of(operand.numpy)
        assert code == "INVALID_ARGUMENT"
        assert "donated" in message


def check_an_operand_that_is_kept_keeps_its_content(context: Context) -> None:
    for size in SIZES:
        program = context.program(elementwise("negate", size))
        x = np.arange(size, dtype=np.float32)
        operand = context.put(x)
        for _ in range(2):
            (result,) = program.execute(context.device, [operand], [0])
            np.testing.assert_array_equal(result.numpy(), -x)
        np.testing.assert_array_equal(operand.numpy(), x)


def check_the_memory_is_used_again(context: Context) -> None:
    program = context.program(elementwise("negate", SIZES[1]))
    buffer = context.put(np.zeros(SIZES[1], np.float32))
    context.device.synchronize()
    before = context.device.memory_stats()["num_allocs"]
    for _ in range(5):
        (buffer,) = program.execute(context.device, [buffer])
    buffer.wait()
    assert context.device.memory_stats()["num_allocs"] == before


def check_readers_see_what_was_there(context: Context) -> None:
    """A copy that was started before the donation has the content of then."""
    program = context.program(elementwise("negate", SIZES[1]))
    x = np.arange(SIZES[1], dtype=np.float32)
    operand = context.put(x)
    copies = [operand.copy_to(context.other) for _ in range(3)]
    (result,) = program.execute(context.device, [operand])
    np.testing.assert_array_equal(result.numpy(), -x)
    for copy in copies:
        np.testing.assert_array_equal(copy.numpy(), x)


def check_donating_and_using_is_refused(context: Context) -> None:
    type_ = "tensor<8xf32>"
    program = context.program(
        f"func.func @main(%x: {type_} {{tf.aliasing_output = 0 : i32}}, %y: {type_}) -> {type_} {{\n"
        f"%0 = stablehlo.add %x, %y : {type_}\nreturn %0 : {type_}\n}}"
    )
    x = np.arange(8, dtype=np.float32)
    operand = context.put(x)
    code, message = error_of(lambda: program.execute(context.device, [operand, operand]))
    assert code == "INVALID_ARGUMENT"
    assert "donated and used in the same call" in message
    np.testing.assert_array_equal(operand.numpy(), x)  # nothing was lost
    (result,) = program.execute(context.device, [context.put(x), context.put(x)])
    np.testing.assert_array_equal(result.numpy(), x + x)
