"""Control flow, calls, tuples and tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from ..formats.hlo_proto import Field, json_text
from ..formats.wire_format import integer, message, text, varint
from ..importer import hlo_calls, hlo_instructions, ops_control
from ..ir import dtypes
from ..ir.hlo import TOKEN, AnyShape, Instruction, Shape, TokenShape, TupleShape
from ..ir.patterns import COLLECTIVE_CALLS
from ..ir.printer import quoted_value, unless
from ..ir.registry import ANY, FREE, NEVER, OPS, WORTH, Absent, Array, Price, both, register
from ..ir.shape_rules import InvalidInstruction, array_of, check_signature, one_or_tuple, require
from ..reference.evaluate import TOKEN_VALUE, evaluate_computation


def _while_shape(instruction: Instruction) -> AnyShape:
    state = [o.shape for o in instruction.operands]
    condition, body = instruction.called
    check_signature(condition, state, [Shape(dtypes.PRED)], "the condition")
    check_signature(body, state, state, "the body")
    return one_or_tuple(state)


def _conditional_shape(instruction: Instruction) -> AnyShape:
    selector = array_of(instruction)
    counts = instruction.attributes["operand_counts"]
    branches = instruction.called
    require(
        selector in (Shape(dtypes.PRED), Shape(dtypes.S32)),
        "the selector is neither pred[] nor s32[]",
    )
    require(
        len(counts) == len(branches) > 0,
        f"{len(counts)} operand counts for {len(branches)} branches",
    )
    if selector.dtype is dtypes.PRED:
        require(len(branches) == 2, "a pred selector with other than 2 branches")
    require(sum(counts) == len(instruction.operands) - 1, "operand counts do not add up")
    start = 1
    results = list(instruction.result_shapes)
    for branch, count in zip(branches, counts, strict=True):
        operands = [o.shape for o in instruction.operands[start : start + count]]
        check_signature(branch, operands, results, "the branch")
        start += count
    return one_or_tuple([r.shape for r in branches[0].results])


def call_shape(instruction: Instruction) -> AnyShape:
    called = instruction.called[0]
    results = [r.shape for r in called.results]
    check_signature(called, [o.shape for o in instruction.operands], results, "the computation")
    return one_or_tuple(results)


def _tuple_shape(instruction: Instruction) -> AnyShape:
    shapes = [o.shape for o in instruction.operands]
    require(not any(isinstance(s, TupleShape) for s in shapes), "tuples do not nest")
    return TupleShape(tuple(shapes))  # type: ignore[arg-type]


def _get_tuple_element_shape(instruction: Instruction) -> AnyShape:
    shape = instruction.operands[0].shape
    if not isinstance(shape, TupleShape):
        raise InvalidInstruction("the operand is not a tuple")
    index = instruction.attributes["index"]
    require(0 <= index < len(shape.elements), f"index {index} of {len(shape.elements)} elements")
    element: AnyShape = shape.elements[index]
    return element


def _barrier_shape(instruction: Instruction) -> AnyShape:
    return one_or_tuple([o.shape for o in instruction.operands])


def _after_all_shape(instruction: Instruction) -> AnyShape:
    require(
        all(isinstance(o.shape, TokenShape) for o in instruction.operands),
        "an operand is not a token",
    )
    return TOKEN


def _while_value(i: Instruction, *operands: Array) -> list[Array]:
    condition, body = i.called
    state = list(operands)
    while bool(evaluate_computation(condition, state)[0]):
        state = evaluate_computation(body, state)
    return state


def _conditional_value(i: Instruction, selector: Array, *operands: Array) -> list[Array]:
    branch = int(selector)
    if selector.dtype == np.bool_:
        branch = 0 if branch else 1
    elif not 0 <= branch < len(i.called):
        branch = len(i.called) - 1
    counts = i.attributes["operand_counts"]
    first = sum(counts[:branch])
    return evaluate_computation(i.called[branch], operands[first : first + counts[branch]])


def _custom_call_fields(i: Instruction) -> bytes:
    attributes = i.attributes
    config = attributes["backend_config"]
    if isinstance(config, dict):
        config = json_text(config)
    several = isinstance(i.shape, TupleShape)
    aliases = b"".join(
        message(
            Field.OUTPUT_OPERAND_ALIASING,
            (message(1, varint(output)) if several else b"") + integer(2, operand),
        )
        for output, operand in attributes["output_operand_aliases"]
    )
    return (
        text(Field.CUSTOM_CALL_TARGET, attributes["custom_call_target"])
        + (message(Field.BACKEND_CONFIG, config) if config else b"")
        + integer(Field.CUSTOM_CALL_API_VERSION, attributes["api_version"])
        + integer(Field.CUSTOM_CALL_HAS_SIDE_EFFECT, int(attributes["has_side_effect"]))
        + aliases
    )


def _library_call_fields(i: Instruction) -> bytes:
    config = i.attributes["config"]
    if i.attributes["name"] in COLLECTIVE_CALLS:
        return _collective_call(i)
    return (
        text(Field.CUSTOM_CALL_TARGET, f"tripont${i.attributes['name']}")
        + (message(Field.BACKEND_CONFIG, json_text(config)) if config else b"")
        + integer(Field.CUSTOM_CALL_API_VERSION, 1)
    )


def _collective_done_fields(i: Instruction) -> bytes:
    return (
        text(Field.CUSTOM_CALL_TARGET, "tripont$collective-done")
        + message(Field.BACKEND_CONFIG, json_text({"meeting": i.attributes["meeting"]}))
        + integer(Field.CUSTOM_CALL_API_VERSION, 1)
    )


def _collective_call(i: Instruction) -> bytes:
    """The attributes that HLO has for a call that passes/collectives.py made, which splits and joins the first
    dimension, and what the call has besides.
    """
    name, config = i.attributes["name"], i.attributes["config"]
    attributes = {"channel_id": config["channel"]}
    if name == "collective-permute":
        sources = enumerate(config["sources"])
        attributes["source_target_pairs"] = [(a, b) for b, a in sources if a >= 0]
    else:
        members = iter(config["groups"])
        groups = [[next(members) for _ in range(size)] for size in config["group_sizes"]]
        attributes["replica_groups"] = groups
        attributes["use_global_device_ids"] = config["channel"] > 0
        attributes |= {"all_gather_dimension": 0, "scatter_dimension": 0}
        if not isinstance(i.shape, TupleShape):
            attributes["split_dimension"] = 0
    collective = Instruction(name, i.shape, i.operands, attributes, i.called)
    rest = {key: config[key] for key in ("meeting", "cost_ns")}
    write = OPS[name].fields
    assert not isinstance(write, Absent), name
    return write(collective) + message(Field.BACKEND_CONFIG, json_text(rest))


def call_value(i: Instruction, *operands: Array) -> list[Array]:
    return evaluate_computation(i.called[0], operands)


def _branches_text(i: Instruction, called: Sequence[str]) -> list[str]:
    if i.operands[0].dtype.kind == "pred":
        return [f"true_computation={called[0]}", f"false_computation={called[1]}"]
    return [f"branch_computations={{{', '.join(called)}}}"]


def _library_call_name(i: Instruction) -> str:
    name = str(i.attributes["name"])
    return name if name in COLLECTIVE_CALLS else "custom-call"


register(  # called: condition, body
    "while",
    operands=ANY,
    called=2,
    shape=_while_shape,
    evaluate=_while_value,
    from_hlo=hlo_instructions.while_,
    read=both(**{"while": ops_control.read_while}),
    callees=("condition", "body"),
    counted=False,
    reads_memory=True,
    runs_thunks=True,
    is_thunk=True,
    folding=NEVER,
)
register(  # selector (pred: 0 true, 1 false; s32), operands of all branches
    "conditional",
    operands=ANY,
    attributes=("operand_counts",),
    called=ANY,
    shape=_conditional_shape,
    evaluate=_conditional_value,
    from_hlo=hlo_instructions.conditional,
    read=both(**{"if": ops_control.read_conditional, "case": ops_control.read_conditional}),
    fields=Absent("the operands become a tuple for each branch"),
    callees=_branches_text,
    counted=False,
    reads_memory=True,
    runs_thunks=True,
    is_thunk=True,
    folding=NEVER,
)
register(
    "call",
    operands=ANY,
    called=1,
    shape=call_shape,
    evaluate=call_value,
    code=Absent("passes/inline.py replaces it by what it calls"),
    from_hlo=hlo_instructions.call,
    read=both(composite=ops_control.read_composite)
    | {
        "func.call": ops_control.read_call,
        "mhlo.fusion": ops_control.read_named_computation,
        "sdy.named_computation": ops_control.read_named_computation,
        "sdy.manual_computation": ops_control.read_manual_computation,
    },
    counted=False,
    reads_memory=True,
    runs_thunks=True,
    folding=NEVER,
)

_BY_THE_EVALUATOR: Final = Absent("the evaluator of computations knows it")
register(
    "tuple",
    operands=ANY,
    shape=_tuple_shape,
    evaluate=_BY_THE_EVALUATOR,
    from_hlo=hlo_instructions.tuple_,
    read=both(tuple=ops_control.read_tuple),
    price=Price(nanoseconds=0.0),
    counted=False,
    reads_memory=True,
    is_alias=True,
    moves=True,
)
register(
    "get-tuple-element",
    operands=1,
    attributes=("index",),
    shape=_get_tuple_element_shape,
    evaluate=_BY_THE_EVALUATOR,
    from_hlo=hlo_instructions.get_tuple_element,
    read=both(get_tuple_element=ops_control.read_get_tuple_element),
    fields=lambda i: integer(Field.TUPLE_INDEX, i.attributes["index"]),
    price=FREE,
    counted=False,
    is_alias=True,
)
register(  # as many results as operands
    "optimization-barrier",
    operands=ANY,
    shape=_barrier_shape,
    evaluate=lambda i, *o: list(o),
    from_hlo=hlo_instructions.barrier,
    read=both(optimization_barrier=ops_control.read_optimization_barrier)
    | {"mhlo.add_dependency": ops_control.read_add_dependency},
    hlo_name="opt-barrier",
    is_alias=True,
    folding=NEVER,
)
register(
    "after-all",
    operands=ANY,
    shape=_after_all_shape,
    evaluate=lambda i, *o: [TOKEN_VALUE],
    read=both(after_all=ops_control.read_after_all, create_token=ops_control.read_after_all),
    is_alias=True,
)

# custom_call_target: str; backend_config: bytes | dict; api_version: int; has_side_effect: bool;
# output_operand_aliases: tuple[(output index, operand index), ...]; operand_layouts and result_layouts (only if one
# is not row-major): a minor-to-major order for each.
register(
    "custom-call",
    operands=ANY,
    attributes=(
        *("custom_call_target", "backend_config", "api_version", "has_side_effect"),
        "output_operand_aliases",
    ),
    shape=Absent("the program says it"),
    evaluate=Absent("it is code of somebody else"),
    read=both(custom_call=ops_control.read_custom_call),
    from_hlo=hlo_calls.custom_call,
    fields=_custom_call_fields,
    text={
        "custom_call_target": quoted_value,
        "backend_config": unless(b""),
        "api_version": unless(1),
        "has_side_effect": unless(False),
        "output_operand_aliases": unless(()),
    },
    callees=lambda i, called: [f"called_computations={{{', '.join(called)}}}"],
    reads_memory=True,
    is_thunk=True,
    folding=NEVER,
)

# A call of the runtime's library (oneDNN and our own C++). name: str; config: dict[str, Attribute]; called: the
# function that the library calls back (a sort's comparator), if any.
register(
    "library-call",
    operands=ANY,
    attributes=("name", "config"),
    called=ANY,
    shape=Absent("the pass that makes it says it"),
    evaluate=Absent("it is C++"),
    read=Absent("made by passes"),
    fields=_library_call_fields,
    hlo_name=_library_call_name,
    text={"name": quoted_value},
    is_thunk=True,
    hoisting=WORTH,
)

# Waits for the collective that is its operand, and has its results. meeting: the collective's.
register(
    "collective-done",
    operands=1,
    attributes=("meeting",),
    shape=lambda i: i.operands[0].shape,
    evaluate=lambda i, *o: list(o),
    read=Absent("made by passes"),
    fields=_collective_done_fields,
    hlo_name="custom-call",
    counted=False,
    is_thunk=True,
    folding=NEVER,
)
