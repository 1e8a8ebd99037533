"""Custom calls with their attributes in the target, as tripont.kernels writes them for TensorFlow and PyTorch/XLA."""

from __future__ import annotations

import numpy as np
import pytest
from jaxlib import _jax
from tripont.core.compiler.importer import read_program
from tripont.core.compiler.ir.errors import CompileError


def read(target: str) -> dict[str, object]:
    """The attributes of a call of ``target`` that is of version 3, as TensorFlow's are."""
    program = f"""
        func.func public @main(%a: tensor<8xf32>) -> tensor<8xf32> {{
          %0 = stablehlo.custom_call @"{target}"(%a) {{api_version = 3 : i32}}
              : (tensor<8xf32>) -> tensor<8xf32>
          return %0 : tensor<8xf32>
        }}"""
    return dict(read_program(program.encode(), "mlir").entry.root.attributes)


def test_attributes_are_typed_and_exact() -> None:
    attributes = read(
        "scale$attributes{a = 0x7fc00001 : f32, b = 0x3ff0000000000001 : f64, c = 65535 : ui16, "
        "d = -3 : i8, e = true, f = 18446744073709551615 : ui64}"
    )
    assert attributes["custom_call_target"] == "scale"
    assert attributes["api_version"] == 4
    config = attributes["backend_config"]
    assert isinstance(config, dict)
    names = {name: value.dtype.name for name, value in config.items()}
    assert names == {
        "a": "float32",
        "b": "float64",
        "c": "uint16",
        "d": "int8",
        "e": "bool",
        "f": "uint64",
    }
    assert np.isnan(config["a"])
    assert config["b"] == np.nextafter(1, 2)
    assert (config["c"], config["d"], config["e"], config["f"]) == (65535, -3, True, 2**64 - 1)


def test_no_attributes() -> None:
    attributes = read("scale$attributes{}")
    assert (attributes["custom_call_target"], attributes["backend_config"]) == ("scale", {})


def test_other_targets_stay_what_they_are() -> None:
    attributes = read("scale{x}$y")
    assert (attributes["custom_call_target"], attributes["api_version"]) == ("scale{x}$y", 3)


@pytest.mark.parametrize("text", ["", "{a = ", "3 : i32"])
def test_what_is_no_dictionary(text: str) -> None:
    with pytest.raises(CompileError, match="attributes of the custom call"):
        read(f"scale$attributes{text}")


@pytest.mark.parametrize("format", ["mlir", "hlo"])
@pytest.mark.parametrize("target", ["control_dep", "dce_sink"])
def test_hints_to_xla_are_left_out(target: str, format: str) -> None:
    """jax.experimental.schedule and jax.lax.dce_sink: no value depends on them."""
    program = f"""
        func.func public @main(%a: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<8xf32> {{
          stablehlo.custom_call @{target}(%a, %b) {{api_version = 2 : i32, has_side_effect = true}}
              : (tensor<8xf32>, tensor<8xf32>) -> ()
          %0 = stablehlo.add %a, %b : tensor<8xf32>
          return %0 : tensor<8xf32>
        }}"""
    data = program.encode()
    if format == "hlo":
        data = _jax.mlir.mlir_module_to_xla_computation(program).as_serialized_hlo_module_proto()
    module = read_program(data, format)
    used = [i.opcode for i in module.entry.instructions if i.opcode != "tuple"]
    assert used == ["parameter", "parameter", "add"]
