"""Programs for the sycl target, and what it makes of them."""

from __future__ import annotations

import struct

from tripont.core.compiler import compile
from tripont.core.compiler.formats import artifact


def program(body: str, parameters: str, result: str) -> bytes:
    return f"func.func @main({parameters}) -> {result} {{\n{body}\n}}".encode()


def unary(op: str, type_: str = "tensor<1000xf32>") -> bytes:
    return program(f"%0 = {op} %a : {type_}\nreturn %0 : {type_}", f"%a: {type_}", type_)


SORT = program(
    """%0 = "stablehlo.sort"(%a) <{dimension = 0 : i64}> ({
^bb0(%x: tensor<f32>, %y: tensor<f32>):
  %s = stablehlo.sine %x : tensor<f32>
  %t = stablehlo.sine %y : tensor<f32>
  %c = stablehlo.compare LT, %s, %t : (tensor<f32>, tensor<f32>) -> tensor<i1>
  stablehlo.return %c : tensor<i1>
}) : (tensor<1000xf32>) -> tensor<1000xf32>
return %0 : tensor<1000xf32>""",
    "%a: tensor<1000xf32>",
    "tensor<1000xf32>",
)


def compiled(text: bytes, device: str = "cpu,fp64") -> artifact.Executable:
    options = {"target": "sycl", "device": device}
    return artifact.deserialize(compile.compile_program(text, "mlir", b"", options))


def spirv_of(executable: artifact.Executable) -> bytes:
    size, _ = struct.unpack_from("<QQ", executable.code)
    return executable.code[16 : 16 + size]


def binary(op: str, type_: str) -> bytes:
    return program(f"%0 = {op} %a, %a : {type_}\nreturn %0 : {type_}", f"%a: {type_}", type_)


def reduction(op: str, zero: str, dimension: int, type_: str = "f32") -> bytes:
    """Of 40 rows of 1,003 elements, which are no whole number of vectors."""
    whole, kept = f"tensor<40x1003x{type_}>", f"tensor<{(1003, 40)[dimension]}x{type_}>"
    return program(
        f"%c = stablehlo.constant dense<{zero}> : tensor<{type_}>\n"
        f"%0 = stablehlo.reduce(%a init: %c) applies {op} across dimensions = [{dimension}] : "
        f"({whole}, tensor<{type_}>) -> {kept}\nreturn %0 : {kept}",
        f"%a: {whole}",
        kept,
    )


SOFTMAX = program(
    """%low = stablehlo.constant dense<0xFF800000> : tensor<f32>
%zero = stablehlo.constant dense<0.0> : tensor<f32>
%m = stablehlo.reduce(%a init: %low) applies stablehlo.maximum across dimensions = [1]
  : (tensor<40x1003xf32>, tensor<f32>) -> tensor<40xf32>
%mb = stablehlo.broadcast_in_dim %m, dims = [0] : (tensor<40xf32>) -> tensor<40x1003xf32>
%d = stablehlo.subtract %a, %mb : tensor<40x1003xf32>
%e = stablehlo.exponential %d : tensor<40x1003xf32>
%s = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [1]
  : (tensor<40x1003xf32>, tensor<f32>) -> tensor<40xf32>
%sb = stablehlo.broadcast_in_dim %s, dims = [0] : (tensor<40xf32>) -> tensor<40x1003xf32>
%r = stablehlo.divide %e, %sb : tensor<40x1003xf32>
return %r : tensor<40x1003xf32>""",
    "%a: tensor<40x1003xf32>",
    "tensor<40x1003xf32>",
)

# A loop of small kernels, one of them a reduction, with a predicate that the device computes.
LOOP = program(
    """%zero = stablehlo.constant dense<0.0> : tensor<f32>
%limit = stablehlo.constant dense<1.0e3> : tensor<f32>
%two = stablehlo.constant dense<2.0> : tensor<200xf32>
%0 = stablehlo.while(%x = %a) : tensor<200xf32>
cond {
  %s = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0]
    : (tensor<200xf32>, tensor<f32>) -> tensor<f32>
  %c = stablehlo.compare LT, %s, %limit : (tensor<f32>, tensor<f32>) -> tensor<i1>
  stablehlo.return %c : tensor<i1>
} do {
  %y = stablehlo.multiply %x, %two : tensor<200xf32>
  stablehlo.return %y : tensor<200xf32>
}
return %0 : tensor<200xf32>""",
    "%a: tensor<200xf32>",
    "tensor<200xf32>",
)

PROGRAMS = {
    "row-sum": reduction("stablehlo.add", "0.0", 1),
    "column-sum": reduction("stablehlo.add", "0.0", 0),
    "all": reduction("stablehlo.and", "true", 1, "i1"),
    "softmax": SOFTMAX,
    "loop": LOOP,
    "exp": unary("stablehlo.exponential"),
    "sine": unary("stablehlo.sine"),
    "sine-f64": unary("stablehlo.sine", "tensor<7xf64>"),
    "power": binary("stablehlo.power", "tensor<1000xf32>"),
    "divide-i32": binary("stablehlo.divide", "tensor<1000xi32>"),
    "move-f64": program(
        "%0 = stablehlo.transpose %a, dims = [1, 0] : (tensor<65x33xf64>) -> tensor<33x65xf64>\n"
        "return %0 : tensor<33x65xf64>",
        "%a: tensor<65x33xf64>",
        "tensor<33x65xf64>",
    ),
    "bf16": unary("stablehlo.tanh", "tensor<33xbf16>"),
    "f16": unary("stablehlo.tanh", "tensor<33xf16>"),
    "i8": unary("stablehlo.negate", "tensor<100xi8>"),
    "complex": unary("stablehlo.exponential", "tensor<37xcomplex<f32>>"),
    "complex-sums": program(
        """%z = stablehlo.constant dense<(0.0, 0.0)> : tensor<complex<f32>>
%0 = "stablehlo.reduce_window"(%a, %z) <{padding = dense<[[7, 0], [0, 0]]> : tensor<2x2xi64>,
    window_dimensions = array<i64: 8, 1>}> ({
^bb0(%x: tensor<complex<f32>>, %y: tensor<complex<f32>>):
  %s = stablehlo.add %x, %y : tensor<complex<f32>>
  stablehlo.return %s : tensor<complex<f32>>
}) : (tensor<8x16xcomplex<f32>>, tensor<complex<f32>>) -> tensor<8x16xcomplex<f32>>
return %0 : tensor<8x16xcomplex<f32>>""",
        "%a: tensor<8x16xcomplex<f32>>",
        "tensor<8x16xcomplex<f32>>",
    ),
    "transpose": program(
        "%0 = stablehlo.transpose %a, dims = [1, 0] : (tensor<65x33xi16>) -> tensor<33x65xi16>\n"
        "return %0 : tensor<33x65xi16>",
        "%a: tensor<65x33xi16>",
        "tensor<33x65xi16>",
    ),
    "dot": program(
        "%0 = stablehlo.dot_general %a, %a, contracting_dims = [1] x [1] : "
        "(tensor<9x17xf32>, tensor<9x17xf32>) -> tensor<9x9xf32>\nreturn %0 : tensor<9x9xf32>",
        "%a: tensor<9x17xf32>",
        "tensor<9x9xf32>",
    ),
    # What the backend got wrong: an extension of a truncated integer, of another width than both.
    "extend-truncated": program(
        "%0 = stablehlo.convert %a : (tensor<16xi32>) -> tensor<16xui8>\n"
        "%1 = stablehlo.convert %0 : (tensor<16xui8>) -> tensor<16xui16>\nreturn %1 : tensor<16xui16>",
        "%a: tensor<16xi32>",
        "tensor<16xui16>",
    ),
}
