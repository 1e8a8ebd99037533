"""What the entry function's attributes say: aliasing, donation and memory kinds."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Protocol

from ..ir import hlo
from ..ir.errors import unimplemented
from . import attributes, bindings

_DEFAULT_MEMORY = "device"
_MEMORY_KINDS = ("mhlo.memory_kind", "stablehlo.memory_kind")


_SHARDINGS = ("mhlo.sharding", "sdy.sharding")
_ELEMENT_BITS = re.compile(r":E\(\d+\)$")


@dataclass(slots=True)
class Signature:
    """What a program says of its devices and memories before it is read.

    ``is_sharded``: whether it is one program for all partitions, with shardings, and not that of each. Memory kinds
    and layouts: as in :class:`..ir.hlo.Module`.
    """

    num_replicas: int
    num_partitions: int
    is_sharded: bool
    parameter_memory_kinds: tuple[str, ...]
    result_memory_kinds: tuple[str, ...]
    parameter_layouts: tuple[hlo.LayoutOrder | None, ...]
    result_layouts: tuple[hlo.LayoutOrder | None, ...]


def signature_of(module: Any) -> Signature:
    """The signature of an MLIR module, from the attributes of the module and its function ``main``."""
    given = module.operation.attributes

    def count(name: str) -> int:
        return int(given[name].value) if name in given else 1

    operations = [view.operation for view in module.body.operations]
    sharded = any(o.name == "sdy.mesh" for o in operations)
    kinds: list[tuple[str, ...]] = [(), ()]
    layouts: list[tuple[hlo.LayoutOrder | None, ...]] = [(), ()]
    for function in operations:
        if function.name == "func.func" and function.attributes["sym_name"].value == "main":
            block = function.regions[0].blocks[0]
            sizes = (len(block.arguments), len(list(block.operations)[-1].operands))
            for n, name in enumerate(("arg_attrs", "res_attrs")):
                found = _dictionaries(function, name, sizes[n])
                kinds[n] = _memory_kinds(found)
                layouts[n] = _result_layouts(function, found) if n else _layouts("parameter", found)
                sharded |= any(key in d for d in found for key in _SHARDINGS)
    replicas, partitions = count("mhlo.num_replicas"), count("mhlo.num_partitions")
    return Signature(replicas, partitions, sharded, kinds[0], kinds[1], layouts[0], layouts[1])


class Program(Protocol):
    """What the signature is read from: a module being read (:class:`.stablehlo.ProgramReader`)."""

    module: Any

    def metadata(self, location: Any) -> hlo.Metadata | None:
        """The names that a location holds."""
        ...


def read_signature(program: Program, function: Any, module: hlo.Module) -> None:
    """Set aliases, donors, memory kinds and parameter names of ``module`` from its entry function."""
    entry = module.entry
    argument_attributes = _dictionaries(function, "arg_attrs", len(entry.parameters))
    results = len(entry.results)
    result_attributes = _dictionaries(function, "res_attrs", results)
    module.parameter_layouts = _layouts("parameter", argument_attributes)
    module.result_layouts = _result_layouts(function, result_attributes)
    aliases: list[tuple[int, int, bool]] = []
    donors: list[int] = []
    for j, argument in enumerate(argument_attributes):
        if "tf.aliasing_output" in argument:
            aliases.append((argument["tf.aliasing_output"], j, False))
        if argument.get("jax.buffer_donor"):
            donors.append(j)
    aliases.extend(_module_aliases(program))
    module.input_output_aliases = tuple(sorted(aliases))
    module.buffer_donors = tuple(donors)
    module.parameter_memory_kinds = _memory_kinds(argument_attributes)
    module.result_memory_kinds = _memory_kinds(result_attributes)
    _name_parameters(program, function, entry)


def _dictionaries(function: Any, name: str, count: int) -> list[dict[str, Any]]:
    if name not in function.attributes:
        return [{}] * count
    found = [attributes.python_value(d) for d in function.attributes[name]]
    return found if len(found) == count else [*found, *([{}] * (count - len(found)))]


def _memory_kinds(dictionaries: list[dict[str, Any]]) -> tuple[str, ...]:
    kinds = tuple(
        next((str(d[k]) for k in _MEMORY_KINDS if k in d), _DEFAULT_MEMORY) for d in dictionaries
    )
    return kinds if any(k != _DEFAULT_MEMORY for k in kinds) else ()


def _layouts(what: str, dictionaries: list[dict[str, Any]]) -> tuple[hlo.LayoutOrder | None, ...]:
    """The layouts that the program demands, none if all are the default.

    (The result layouts in an HloModuleProto are not demands but what XLA would find convenient; PJRT asks us.)
    """
    found = tuple(
        _layout(what, number, str(dictionary.get("mhlo.layout_mode", "default")))
        for number, dictionary in enumerate(dictionaries)
    )
    return found if any(found) else ()


def _result_layouts(
    function: Any, dictionaries: list[dict[str, Any]]
) -> tuple[hlo.LayoutOrder | None, ...]:
    """Those that are left to the compiler are what the program itself says."""
    return tuple(
        _constraint(function, number) if layout == hlo.AUTO_LAYOUT else layout
        for number, layout in enumerate(_layouts("result", dictionaries))
    )


def _layout(what: str, number: int, mode: str) -> hlo.LayoutOrder | None:
    """``{0,1}``: the order of the dimensions in memory, fastest first.

    ``{0,1:E(4)}`` too: JAX adds the bits of an element to the layout of arrays with less than a byte an element, which
    PJRT's buffers have in whole bytes.
    """
    if mode in ("default", ""):
        return None
    if mode == "auto":
        return hlo.AUTO_LAYOUT
    order = _ELEMENT_BITS.sub("", mode.strip("{}"))
    axes = order.split(",") if order else []
    if not all(axis.strip().isdigit() for axis in axes):
        raise unimplemented(
            f"{what} {number} must have the layout {mode}; only dense layouts without tiles are supported"
        )
    return tuple(map(int, axes)) or None


def _constraint(function: Any, number: int) -> hlo.LayoutOrder:
    """The layout that the program itself gives a result (``with_layout_constraint``), else any."""
    value = function.regions[0].blocks[0].operations[-1].operands[number]
    while isinstance(value, bindings.ir.OpResult):
        call = value.owner
        if call.name != "stablehlo.custom_call" or len(call.operands) != 1:
            break
        target = attributes.symbol(call.attributes["call_target_name"])
        if target == "LayoutConstraint" and "result_layouts" in call.attributes:
            return attributes.integers(call.attributes["result_layouts"][0]) or hlo.AUTO_LAYOUT
        if target != "annotate_device_placement":
            break
        value = call.operands[0]
    return hlo.AUTO_LAYOUT


def _module_aliases(program: Program) -> list[tuple[int, int, bool]]:
    """The aliases that hlo_to_stablehlo keeps as a module attribute, with the names of HloInputOutputAliasProto."""
    module_attributes = program.module.operation.attributes
    if "mhlo.input_output_alias" not in module_attributes:
        return []
    found: list[tuple[int, int, bool]] = []
    for entry in attributes.python_value(module_attributes["mhlo.input_output_alias"]):
        alias = entry.get("alias", {})
        output = [int(i) for i in entry.get("output_index", ())]
        parameter_index = list(alias.get("parameter_index", ()))
        if len(output) > 1 or parameter_index:
            continue  # inside a nested tuple: we have none
        kind = str(alias.get("kind", "may_alias"))
        found.append((output[0] if output else 0, int(alias["parameter_number"]), "must" in kind))
    return found


def _name_parameters(program: Program, function: Any, entry: hlo.Computation) -> None:
    """Give the entry's parameters the names and metadata that their locations hold."""
    for argument, parameter in zip(
        function.regions[0].blocks[0].arguments, entry.parameters, strict=True
    ):
        metadata = program.metadata(argument.location) if hasattr(argument, "location") else None
        if metadata is not None:
            parameter.metadata = metadata
