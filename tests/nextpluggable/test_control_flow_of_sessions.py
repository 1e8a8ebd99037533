"""Loops and conditionals of a session that were made in an XLAControlFlowContext, where nothing asks for lowering."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import function
from tensorflow.python.ops.control_flow_ops import XLAControlFlowContext

v1 = tf.compat.v1


@pytest.fixture(autouse=True, scope="module")
def soft_placement() -> None:
    """TensorFlow has it off in a process whose first op is in a graph, and other tests want it."""
    tf.config.set_soft_device_placement(enabled=True)


def run(make: Callable[..., Any], *values: Any) -> Any:
    """What ``make`` of placeholders of the values computes on XPU, made in such a context."""
    with tf.Graph().as_default(), v1.Session() as session, tf.device("/device:XPU:0"):
        given = [v1.placeholder(np.asarray(value).dtype) for value in values]
        context = XLAControlFlowContext()
        context.Enter()
        result = make(*given)
        context.Exit()
        return session.run(result, dict(zip(given, values, strict=True)))


def test_a_conditional_that_needs_a_constant() -> None:
    def element(x: Any, place: Any, is_asked: Any) -> Any:
        return tf.cond(is_asked, lambda: x[place], lambda: 5.0)

    x, place = np.array([0, 1, 2], np.float32), np.int32(1)
    assert run(element, x, place, True) == 1
    assert run(element, x, place, False) == 5


def test_a_conditional_in_a_function_with_a_list() -> None:
    def listed(is_asked: Any) -> Any:
        @tf.function
        def function(is_asked: Any) -> Any:
            array = tf.TensorArray(tf.float32, size=1)
            return tf.cond(
                is_asked, lambda: array.write(0, 5.0), lambda: array.write(0, 10.0)
            ).stack()

        return function(is_asked)

    assert run(listed, True).tolist() == [5]
    assert run(listed, False).tolist() == [10]


def test_a_branch_by_number_within_a_loop() -> None:
    def loop(n: Any) -> Any:
        def step(i: Any, x: Any) -> Any:
            branches = [lambda: x + 1, lambda: x * 2, lambda: x - 3]
            return i + 1, tf.switch_case(i % 3, branches)

        return tf.while_loop(lambda i, _: i < n, step, (0, 1.0))

    # 1 -> 2 -> 4 -> 1 -> 2 -> 4
    assert [float(part) for part in run(loop, np.int32(5))] == [5, 4]


def test_the_gradient_of_loops_in_loops() -> None:
    def gradient(p: Any) -> Any:
        v = tf.constant(1.0)
        count = tf.size(p)

        def inner(i: Any, x: Any) -> Any:
            more = tf.while_loop(
                lambda *_: True, lambda j, y: (j + 1, v * y), (0, x), maximum_iterations=count
            )
            return i + 1, x + more[1]

        last = tf.while_loop(lambda *_: True, inner, (0, 1.0), maximum_iterations=count)
        return v1.gradients(last[1], v)[0]

    # Each of three steps is x + v^3 x: (1 + v^3)^3, whose derivative at 1 is 3 * 4 * 3.
    assert run(gradient, np.zeros(3, np.int32)) == 36


def test_a_function_that_the_cpu_calls_too() -> None:
    def called_twice(x: Any, place: Any) -> Any:
        @tf.function
        def function(x: Any, place: Any) -> Any:
            return tf.cond(x[0] < x[1], lambda: x[place] * 2, lambda: x[place] - 1)

        on_xpu = function(x, place)
        with tf.device("/device:CPU:0"):
            on_cpu = function(-x, place)
        return on_xpu, on_cpu

    assert run(called_twice, np.array([0, 1, 2], np.float32), np.int32(2)) == (4, -3)


def test_threads_that_run_one_graph() -> None:
    with tf.Graph().as_default(), v1.Session() as session, tf.device("/device:XPU:0"):
        x, place = v1.placeholder(tf.float32, [3]), v1.placeholder(tf.int32, [])
        context = XLAControlFlowContext()
        context.Enter()
        result = tf.cond(x[0] < 1, lambda: x[place], lambda: -x[place])
        context.Exit()

        def element(number: int) -> float:
            values = np.arange(number, number + 3, dtype=np.float32)
            return float(session.run(result, {x: values, place: number % 3}))

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            found = list(pool.map(element, range(12)))
    assert found == [n + n % 3 if n < 1 else -(n + n % 3) for n in range(12)]


def factorial(op: str, device: str) -> Any:
    """A graph that computes it for ``x`` as ``y``, by a function that calls itself by its name."""
    make = getattr(tf.raw_ops, op)
    with tf.Graph().as_default() as graph, tf.device(device):

        @function.Defun(tf.float32, func_name="Again")
        def again(n: Any) -> Any:
            return tf.identity(n)

        @function.Defun(tf.float32, func_name="Then")
        def then(n: Any) -> Any:
            return n * again(n - 1)

        @function.Defun(tf.float32, func_name="Else")
        def otherwise(n: Any) -> Any:
            return tf.ones_like(n)

        @function.Defun(tf.float32, func_name="Factorial", out_names=["result"])
        def whole(n: Any) -> Any:
            return make(
                cond=n > 0.5,
                input=[n],
                Tout=[tf.float32],
                then_branch=then,
                else_branch=otherwise,
            )[0]

        tf.identity(whole(v1.placeholder(tf.float32, (), name="x")), name="y")
        definition = graph.as_graph_def()
    (branch,) = (f for f in definition.library.function if f.signature.name == "Then")
    for node in branch.node_def:
        for i, name in enumerate(node.input):
            if name.startswith("Again"):
                node.input[i] = f"{name.split(':')[0]}:result:0"
        if node.op == "Again":
            node.op = "Factorial"
    return definition


@pytest.mark.parametrize("op", ["If", "StatelessIf"])
def test_a_function_that_calls_itself(op: str) -> None:
    """TensorFlow's CPU computes it; XLA would translate it until the stack is full."""
    for device in ("/device:CPU:0", "/device:XPU:0"):
        with tf.Graph().as_default(), v1.Session() as session:
            tf.import_graph_def(factorial(op, device), name="")
            if device == "/device:CPU:0":
                assert session.run("y:0", {"x:0": 5.0}) == 120
                continue
            with pytest.raises(tf.errors.UnimplementedError, match="calls itself in the end"):
                session.run("y:0", {"x:0": 5.0})


@pytest.mark.parametrize("is_call", [False, True], ids=["by_name", "partitioned_call"])
def test_a_function_that_calls_itself_and_is_lowered(is_call: bool) -> None:
    """TensorFlow's executor runs it op by op, and no compiler sees the whole."""
    definition = factorial("If", "/device:XPU:0")
    for f in definition.library.function:
        for node in f.node_def:
            if node.op == "If":
                node.attr["_lower_using_switch_merge"].b = True
    if is_call:
        (call,) = (node for node in definition.node if node.op == "Factorial")
        call.op = "PartitionedCall"
        call.attr["f"].func.name = "Factorial"
        for name in ("Tin", "Tout"):
            call.attr[name].list.type.append(tf.float32.as_datatype_enum)
    with tf.Graph().as_default(), v1.Session() as session:
        tf.import_graph_def(definition, name="")
        assert session.run("y:0", {"x:0": 5.0}) == 120


@pytest.mark.parametrize("jit", [False, True], ids=["function", "jit"])
@pytest.mark.parametrize("op", ["If", "StatelessIf", "Case", "StatelessCase"])
def test_conditionals_that_are_called_by_name(op: str, jit: bool) -> None:
    """In a function of TensorFlow 2, with an integer among the arguments."""
    given = tf.TensorSpec([3], tf.float32), tf.TensorSpec([], tf.int32)
    times = tf.function(lambda x, n: x * tf.cast(n, x.dtype)).get_concrete_function(*given)
    less = tf.function(lambda x, n: x - tf.cast(n, x.dtype)).get_concrete_function(*given)

    def branch(which: Any, x: Any, n: Any) -> Any:
        arguments = {"input": [x, n], "Tout": [tf.float32]}
        if op.endswith("If"):
            made = getattr(tf.raw_ops, op)(
                cond=which > 0, then_branch=less, else_branch=times, **arguments
            )
        else:
            made = getattr(tf.raw_ops, op)(branch_index=which, branches=[times, less], **arguments)
        return made[0]

    with tf.device("/device:XPU:0"):
        function = tf.function(branch, jit_compile=jit)
        x, n = tf.constant([1.0, 2.0, 3.0]), tf.constant(2)
        assert function(tf.constant(0), x, n).numpy().tolist() == [2, 4, 6]
        assert function(tf.constant(1), x, n).numpy().tolist() == [-1, 0, 1]
