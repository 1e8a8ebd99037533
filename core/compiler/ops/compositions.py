"""Operations that are read as several elementwise ops."""

from __future__ import annotations

import math

from ..importer import ops_elementwise, ops_optimized, ops_quantized
from ..ir.registry import read_as

read_as(
    {
        "chlo.square": ops_elementwise.read_square,
        "chlo.constant_like": ops_elementwise.read_constant_like,
        "chlo.is_inf": ops_elementwise.read_infinity_test(math.nan),
        "chlo.is_pos_inf": ops_elementwise.read_infinity_test(math.inf),
        "chlo.is_neg_inf": ops_elementwise.read_infinity_test(-math.inf),
        "mhlo.stochastic_convert": ops_optimized.read_stochastic_convert,
    },
    calls={
        "tripont.exp2": ops_elementwise.read_exp2,
        "tripont.log2": ops_elementwise.read_log2,
        "tripont.uniform_quantize": ops_quantized.read_uniform_quantize,
        "tripont.uniform_dequantize": ops_quantized.read_uniform_dequantize,
    },
    composites={"chlo.square": ops_elementwise.read_square_composite},
)
