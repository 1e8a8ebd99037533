"""The kernels of ops and fusions. Each is imported when one is first written: most programs need few of them."""

from __future__ import annotations

from typing import Any


def loops(*arguments: Any) -> Any:
    from ..codegen.kernels.loops import emit

    return emit(*arguments)


def update_slices(*arguments: Any) -> Any:
    from ..codegen.kernels.update_slices import emit

    return emit(*arguments)


def reductions(*arguments: Any) -> Any:
    from ..codegen.kernels.reductions import emit

    return emit(*arguments)


def rows(*arguments: Any) -> Any:
    from ..codegen.kernels.rows import emit

    return emit(*arguments)


def transposes(*arguments: Any) -> Any:
    from ..codegen.kernels.transposes import emit

    return emit(*arguments)


def block_transpose(*arguments: Any) -> Any:
    from ..codegen.kernels.block_transpose import emit

    return emit(*arguments)


def contraction(*arguments: Any) -> Any:
    from ..codegen.kernels.contraction import emit

    return emit(*arguments)


def convolution(*arguments: Any) -> Any:
    from ..codegen.kernels.convolution import emit

    return emit(*arguments)


def pack(*arguments: Any) -> Any:
    from ..codegen.kernels.pack import emit

    return emit(*arguments)


def fft(*arguments: Any) -> Any:
    from ..codegen.kernels.fft import emit

    return emit(*arguments)


def packed_dot(*arguments: Any) -> Any:
    from ..codegen.kernels.packed_dot import emit

    return emit(*arguments)


def window_product(*arguments: Any) -> Any:
    from ..codegen.kernels.window_product import emit

    return emit(*arguments)


def reduce_window(*arguments: Any) -> Any:
    from ..codegen.kernels.reduce_window import emit

    return emit(*arguments)


def rng(*arguments: Any) -> Any:
    from ..codegen.kernels.rng import emit

    return emit(*arguments)


def scatter(*arguments: Any) -> Any:
    from ..codegen.kernels.scatter import emit

    return emit(*arguments)


def select_and_scatter(*arguments: Any) -> Any:
    from ..codegen.kernels.select_and_scatter import emit

    return emit(*arguments)


def element_loops(*arguments: Any) -> Any:
    from ..codegen.kernels.element_loops import emit

    return emit(*arguments)


def attention(*arguments: Any) -> Any:
    from ..codegen.kernels.attention import emit

    return emit(*arguments)


def attention_gradient(*arguments: Any) -> Any:
    from ..codegen.kernels.attention_gradient import emit

    return emit(*arguments)
