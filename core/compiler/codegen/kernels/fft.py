"""The "fft" kernel: Fourier transforms along one dimension, as many at a time as a vector has lanes.

Each number of a transform is a pair of vectors, its real and its imaginary parts in several transforms (`lanes`), so
that all steps are vector instructions without shuffles, whatever the length. The transforms of a unit of work are
neighbours along one dimension of the arrays (`lanes` consecutive ones; the last unit of a line begins early enough to
be full). Where that dimension is contiguous, numbers are read and written as whole vectors; where the transformed one
is, squares are turned in registers; else elements are gathered.

A transform is written by :mod:`.fft_pass`, from butterflies (:mod:`.butterflies`), by a table of twiddle factors
(:mod:`.fft_tables`), whose size and the length decide what is worth a kernel (:mod:`.fft_lengths`). What it reads and
writes is in :mod:`.fft_vectors` and :mod:`.fft_copies`, real rows are in :mod:`.fft_real`.

Real rows of an even length n are taken for n / 2 complex numbers; of others the imaginary parts are zeros.

Attributes (``config``):

``n``               the length, in complex numbers if ``form`` is "complex", else in real ones
``form``            "complex"; "from_real" and "to_real": the real array is that of n, the complex one has n // 2 + 1
``lanes``           transforms at a time
``sizes``           of the dimensions along which the transforms lie; the last is that of the lanes
``source``          strides of these dimensions in the operand, and that of the transformed one, in its elements; those
                    of a real operand with even ``n`` are in pairs
``target``          likewise of the result
``columns``         of real forms: whether the lanes are neighbours in both arrays; strides of the real one are in its
                    elements then, whatever ``n`` is
``exchanged``       whether real and imaginary parts are exchanged when they are read, and when they are written: an
                    inverse transform is a transform with both
``scale``           what the result is multiplied by
``spread``          0, or the length of a transform of which this is the first half (:mod:`...passes.library.fft`):
                    number k of transform l along the last dimension is multiplied by exp(-2 pi i k l / spread)
``products``        how many numbers in the table make each factor of ``spread`` (:class:`~.fft_tables.Table`)

The second operand is the table of twiddle factors, made by :func:`.fft_tables.table`.

With ``halves``, two such configurations, a unit of work is a row of ``n`` contiguous complex numbers, and ``sizes`` the
number of rows: the first is the transform of the row's columns, the second that of its rows, and what is between them
stays on the stack. With ``between`` too, a unit is a matrix of ``n`` numbers, the halves are the transforms along its
dimensions, and so many complex numbers are between them. With ``length``, a row is a convolution of that length, and
``halves`` are four, those of its transform and of the inverse one, which have one table. The convolution is Rader's if
its length is n - 1, for a prime n, else Bluestein's (:mod:`.fft_convolution`). With ``pass`` in place of ``halves``,
the configuration of one pass of that length, the convolution is Rader's, and a unit is as many rows as that pass has
lanes (:mod:`.fft_cyclic`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ..generator import Index
from ..llvm_ir import i64
from .emit import EmittedKernel, Frame, emitter
from .fft_convolution import Convolution, run_both, transforms_of
from .fft_cyclic import CyclicRows
from .fft_pass import Transform
from .loops import count


@emitter(collapsed=False)
def emit(frame: Frame) -> EmittedKernel:
    """The kernel of an ``fft-pass`` instruction."""
    config = frame.instruction.attributes["config"]
    if "pass" in config:
        return _emit_cyclic(frame, config)
    if "length" in config:
        return _emit_convolution(frame, config)
    if "halves" in config:
        return _emit_both(frame, config)
    return _emit_one(frame, config)


def _emit_one(frame: Frame, config: Mapping[str, Any]) -> EmittedKernel:
    """A kernel whose units are some neighbouring transforms."""
    transform = Transform(frame, config, arrays=_sizes(frame))
    dims = [*transform.sizes[:-1], transform.groups]
    operand, result = (a.pointer for a in (frame.operands[0], frame.results[0]))

    def unit(index: Index) -> None:
        *outer, group = (c.base for c in index)
        transform.unit(operand, result, outer, group)

    count(frame.generator, frame.begin, frame.end, dims, unit)
    return _finish(frame, math.prod(dims), transform.nanoseconds)


def _emit_both(frame: Frame, config: Mapping[str, Any]) -> EmittedKernel:
    """A kernel whose units are rows or matrices: both halves of a transform, with the numbers between them on the
    stack.
    """
    b, (units,) = frame.builder, config["sizes"]
    first, second = transforms_of(frame, config, *_sizes(frame))
    scalar, size = first.vectors.scalar, first.vectors.size
    between = b.alloca(scalar, 2 * config.get("between", config["n"]))

    def unit(index: Index) -> None:
        operand, result = (
            b.gep(scalar, a.pointer, b.mul(index[0].base, i64(a.shape.bytes // (units * size))))
            for a in (frame.operands[0], frame.results[0])
        )
        run_both((first, second), operand, between, result)

    count(frame.generator, frame.begin, frame.end, [units], unit)
    each = sum(half.nanoseconds * half.groups for half in (first, second))
    return _finish(frame, units, each)


def _emit_convolution(frame: Frame, config: Mapping[str, Any]) -> EmittedKernel:
    """A kernel whose units are rows: a transform by a convolution, with all that it needs on the stack."""
    convolution = Convolution(frame, config)
    operand, result = (a.pointer for a in (frame.operands[0], frame.results[0]))

    def unit(index: Index) -> None:
        convolution.row(operand, result, index[0].base)

    (rows,) = config["sizes"]
    count(frame.generator, frame.begin, frame.end, [rows], unit)
    return _finish(frame, rows, convolution.nanoseconds)


def _emit_cyclic(frame: Frame, config: Mapping[str, Any]) -> EmittedKernel:
    """A kernel whose units are as many rows as there are lanes: transforms of a prime length by convolutions."""
    rows = CyclicRows(frame, config, _sizes(frame))
    operand, result = (a.pointer for a in (frame.operands[0], frame.results[0]))

    def unit(index: Index) -> None:
        rows.unit(operand, result, index[0].base)

    count(frame.generator, frame.begin, frame.end, [rows.groups], unit)
    return _finish(frame, rows.groups, rows.nanoseconds)


def _sizes(frame: Frame) -> tuple[int, int]:
    """Bytes of the operand and of the result."""
    return frame.operands[0].shape.bytes, frame.results[0].shape.bytes


def _finish(frame: Frame, units: int, each: float) -> EmittedKernel:
    """The kernel, of units that take ``each`` nanoseconds."""
    nanoseconds = frame.target.costs.kernels.call + units * each
    return frame.finish(units, nanoseconds)
