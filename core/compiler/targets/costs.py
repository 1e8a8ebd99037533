"""What work costs on a target: the one value by which passes and kernels choose.

A target has one :class:`Costs` (``target.costs``), in groups by what is decided. Each number has a unit and a meaning,
which stand in its annotation; :attr:`Costs.measured` names the command that measured it, or says that it is a
judgement. Nothing outside the targets' folders says what a machine takes for something. Four kinds of numbers are not
costs and stay where they are used: limits of formats and libraries, sizes up to which code is written out or a
compilation looks, bounds of errors, and the few numbers of registers that follow from the width of vectors.

A target of another package starts from the host's (:mod:`.host.costs`) with :func:`dataclasses.replace`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Final

from ..ir.dtypes import DType
from ..ir.hlo import Instruction, Shape
from ..ir.registry import OPS, Price

#: In :attr:`Costs.measured`: no command measured these numbers alone; they are what measured programs did well with.
JUDGEMENT: Final = "judgement"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernels:
    """How long generated code takes on one core: the estimates by which work is shared out and fusions are made."""

    call: Annotated[float, "ns", "calling the kernel of a fusion"]
    nest: Annotated[float, "ns", "calling a kernel with loops of its own, such as a product's"]
    byte: Annotated[float, "ns", "reading or writing a byte beyond the nearest caches"]
    product_byte: Annotated[
        float, "ns", "the same in a product that reads its operands as they lie"
    ]
    packed_byte: Annotated[float, "ns", "reading or writing a byte while packing"]
    far_byte: Annotated[float, "ns", "reading a byte of a product from beyond the second cache"]
    cheap: Annotated[float, "ns", "a cheap vector instruction, the unit of weights"]
    multiply_adds: Annotated[float, "vectors/ns", "multiply-adds of products and of attention"]
    tiled_multiply_adds: Annotated[float, "vectors/ns", "multiply-adds in tiles of packed operands"]
    transposed: Annotated[float, "times", "what a loop in tiles takes, by what its instructions do"]
    convolution: Annotated[float, "ns", 'a vector of products of the kernel "convolution"']
    window: Annotated[float, "ns", "a vector of operations of a window's reduction"]
    scan: Annotated[float, "ns", "a vector of a cumulative reduction"]
    scan_element: Annotated[float, "ns", "an element of a cumulative reduction besides"]
    selection: Annotated[float, "ns", "a vector of positions of select-and-scatter"]
    scattered_element: Annotated[float, "ns", "an element of scatter, one at a time"]
    scattered_place: Annotated[float, "ns", "passing over a place of a scatter of rows"]
    scattered_vector: Annotated[float, "ns", "a vector of elements of scatter"]
    random: Annotated[float, "ns", "a vector of random 32-bit words"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiles:
    """How fast a core goes through a tile of accumulators: what the shapes of tiles are chosen by."""

    multiply_adds: Annotated[float, "vectors/cycle", "multiply-adds"]
    loads: Annotated[float, "vectors/cycle", "loads"]
    load_start: Annotated[float, "cycles", "before the loads of a step come one after the other"]
    latency: Annotated[float, "cycles", "until a sum can be added to"]
    step: Annotated[float, "cycles", "a step of the loop besides"]
    parts_of_lines: Annotated[
        float,
        "times",
        "the time of tiles that end with a line of memory: of those that share lines",
    ]
    copied_run: Annotated[
        float,
        "cycles",
        "until a part of a row comes that is copied from where it lies; 0: it is not counted",
    ]
    window_step: Annotated[float, "cycles", "a step of the loop of a convolution besides"]
    window_start: Annotated[float, "cycles", "starting a tile of a convolution"]
    moved: Annotated[float, "cycles", "writing an element in another order"]

    def cycles(self, products: float, loads: float) -> float:
        """Cycles of a step of a tile: so many vectors are multiplied, and so many loaded (twice, if from two lines)."""
        return max(
            products / self.multiply_adds, loads / self.loads + self.load_start, self.latency
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Threads:
    """When work is shared out."""

    grain: Annotated[float, "ns", "less work is not worth waking a thread"]
    unit: Annotated[float, "ns", "less of a product is not worth a unit of work"]
    pair: Annotated[float, "ns", "longer products are worth two units, however short these are"]
    units: Annotated[int, "units", "that work which is not small is cut into"]
    product_units: Annotated[int, "units", "that products and convolutions are cut into"]
    long_units: Annotated[
        int, "units", "the same of long operands, which larger blocks read less often"
    ]
    reading_units: Annotated[
        int, "units", "that products are cut into whose smaller units would mostly read"
    ]
    line_units: Annotated[int, "units", "with so many, units read whole lines of memory"]
    split_elements: Annotated[int, "elements", "fewer are reduced as fast by one thread"]
    split_results: Annotated[int, "elements", "with more results there is enough to share out"]
    split_rows: Annotated[int, "rows", "with more rows of a scan there is enough to share out"]
    split_parts: Annotated[int, "parts", "that one reduction is cut into"]
    scatter_elements: Annotated[int, "elements", "fewer are scattered as fast into one table"]
    scatter_parts: Annotated[int, "parts", "with a table each, that one scatter is cut into"]
    scatter_each: Annotated[
        float, "updates", "of each element of the tables, that pay for the tables"
    ]
    scatter_streamed: Annotated[
        int, "bytes", "of updates from which on half of their rows takes as long to read as all"
    ]
    scatter_walks: Annotated[
        int, "walks", "through the updates of a scatter of rows that stream by, an even number"
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Sizes of caches and stacks, and from which size on memory is read and written in another way."""

    line: Annotated[int, "bytes", "that come together"]
    way: Annotated[int, "bytes", "apart, lines have the same place in the nearest cache"]
    ways: Annotated[
        int, "lines", "in one place of it, that a product's rows may keep beside what streams by"
    ]
    requests: Annotated[int, "lines", "that a core waits for at a time"]
    panel: Annotated[int, "bytes", "of a panel that stays in the nearest cache"]
    second: Annotated[int, "bytes", "of a product's operands that stay in the second cache"]
    strip: Annotated[
        int, "bytes", "of states that stay in the nearest cache beside what a loop reads"
    ]
    sums: Annotated[int, "bytes", "of sums in memory that stay in the nearest cache"]
    merged_sums: Annotated[int, "bytes", "of sums of a thread's neighbouring blocks in memory"]
    block: Annotated[int, "bytes", "of sums of a block of tiles, on the stack"]
    kept: Annotated[int, "bytes", "of what a kernel computed and needs again, on the stack"]
    planes: Annotated[int, "bytes", "of planes between the loops of a chain, on the stack"]
    copied_panel: Annotated[int, "bytes", "of the copy of a part of a panel, on the stack"]
    places: Annotated[
        int, "bytes", "of places and updates that a scatter computes ahead, on the stack; 0: none"
    ]
    streamed: Annotated[
        int, "bytes", "from which on reading a matrix decides how long a product takes"
    ]
    streamed_far: Annotated[
        int,
        "bytes",
        "of such a matrix, or of all that the program is given, from which on it is fetched into all caches but the "
        "nearest",
    ]
    streamed_row: Annotated[
        int,
        "bytes",
        "of a single row, as sums have it, up to which the columns of such a matrix that are rows of memory are read "
        "one after the other; 0: they are not",
    ]
    streamed_run: Annotated[
        int,
        "bytes",
        "of the result of a single row, as sums have it, up to which such a matrix of 16 bits whose rows are rows of "
        "memory is read in one run by a thread that has all columns; 0: none is",
    ]
    streamed_made: Annotated[int, "bytes", "from which on writing one does that is made of less"]
    past_caches: Annotated[int, "bytes", "from which on a loop writes past the caches"]
    transposed_past_caches: Annotated[
        int, "bytes", "from which on a transpose writes past the caches"
    ]
    bytes_ahead: Annotated[int, "bytes", "how far ahead a row is fetched that streams by"]
    columns_ahead: Annotated[
        int, "bytes", "up to which the next columns are fetched, not the next elements of these"
    ]
    rows_ahead: Annotated[int, "rows", "how far ahead rows are fetched"]
    updates_ahead: Annotated[int, "bytes", "how far ahead updates of a scatter are that stream by"]
    groups_ahead: Annotated[
        int, "groups", "of a sum: how far ahead a product's rows are fetched; 0: they are not"
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fusion:
    """What may be computed again rather than stored, and how much one kernel may compute."""

    cheap: Annotated[
        float, "instructions", "up to which a value is computed again where it is read"
    ]
    expensive: Annotated[float, "instructions", "from which on a value is not computed twice"]
    recomputed: Annotated[
        float, "instructions/element", "that a fusion may do more than kernels would"
    ]
    most: Annotated[float, "instructions/element", "of a fusion, with recomputation"]
    repeated: Annotated[
        float, "times", "a small array with repeated elements: a loop that reads it from memory"
    ]
    row: Annotated[int, "elements", "of a row that stays in a cache near by"]
    kept: Annotated[
        float, "weight", "from which on a value of a row is kept rather than computed again"
    ]
    short_row: Annotated[
        int, "elements", "of a row whose result may be computed further in a kernel of its own"
    ]
    function: Annotated[
        float, "nanoseconds", "from which on an op is a function of many instructions"
    ]
    own_loop: Annotated[
        float,
        "nanoseconds",
        "of functions, computed one by one, that are worth a kernel in vectors",
    ]
    mask: Annotated[float, "instructions/element", "of a mask that attention computes again"]
    epilogue: Annotated[float, "instructions/element", "behind a product, in its kernel"]
    weights: Annotated[
        float, "instructions/element", "of a matrix that a product computes on the way"
    ]
    weights_read: Annotated[float, "times", "the memory of that matrix, which its arrays may take"]
    chained: Annotated[
        int,
        "bytes",
        "of an array between loops that are computed together plane by plane, at least; 0: none",
    ]
    chained_rows: Annotated[
        int, "elements", "of the rows of such arrays; of shorter ones they have many times as much"
    ]
    chained_gain: Annotated[
        float,
        "times",
        "what loops with several results move together, which they move by themselves",
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Loops:
    """Loops whose elements go through all steps one block after the other."""

    carried: Annotated[
        int, "vectors", "of all states that registers hold beside what a step computes"
    ]
    latency: Annotated[
        float, "times", "the time of one of many cheap instructions, until a result is there"
    ]
    enough_work: Annotated[
        float, "of a chain's time", "that others' work must fill for states in registers"
    ]
    shared: Annotated[
        float, "times", "the work that is the same for all blocks, which a block should do"
    ]
    strip: Annotated[int, "vectors", "of the shortest strip"]
    numbers: Annotated[
        float, "numbers", "more than one, of a value in the mean, of a loop without axes at most"
    ]
    repeated: Annotated[
        float, "times", "a cheap instruction: the expensive ones that such a loop repeats at most"
    ]
    late_gain: Annotated[
        float, "times", "the time of vectors of steps: what steps take to compute outputs, at least"
    ]
    late_states: Annotated[
        float, "times", "the bytes of an output: what may be kept of each step to compute it of"
    ]
    late_kept: Annotated[
        float,
        "nanoseconds",
        "to keep a value of a step for the outputs that are computed behind the loop",
    ]
    late_saving: Annotated[
        float, "nanoseconds", "of all steps, that are worth computing outputs behind the loop"
    ]
    late_sums: Annotated[
        int, "numbers", "of the smallest sum of products that is computed behind the loop"
    ]
    late_factors: Annotated[
        float, "times", "the numbers of such a sum: the numbers of a step that may be kept for it"
    ]
    late_stacks: Annotated[
        float,
        "times",
        "the bytes of the arrays of all steps: the bytes that may be kept for such sums",
    ]
    lane: Annotated[
        float,
        "times",
        "a cheap instruction: to put a single number into a lane of a vector, and one out of it",
    ]
    slow_masks: Annotated[
        bool,
        "yes or no",
        "whether comparing into a mask takes longer than into a vector: single numbers wait for it",
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Components:
    """When a dimension of few elements is taken out of arrays: each of its elements becomes an array."""

    least: Annotated[int, "elements", "of an array whose last dimension is in the way"]
    least_component: Annotated[
        int, "elements", "of an array for each component, unless its operands are ones"
    ]
    moved: Annotated[
        float, "times", "the elements computed, that are taken apart or put together at most"
    ]
    members: Annotated[
        int, "elements", "of a group of features: with at most so many, groups become one dimension"
    ]
    spread: Annotated[
        float,
        "times",
        "what is copied for each member of a group: the array that has to be so large",
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Products:
    """Which matrix products are generated with packing, which are a library's, which neither."""

    few_rows: Annotated[int, "rows", "up to which reading the other matrix decides the time"]
    packed_rows: Annotated[int, "rows", "fewer are not worth packing the other matrix"]
    packed_each: Annotated[int, "multiply-adds", "of each product of a batch that is worth packing"]
    packed_integers: Annotated[int, "multiply-adds", "of integers that are worth packing"]
    packed_small: Annotated[
        int, "multiply-adds", "of floats of 8 and 16 bits that are worth packing"
    ]
    packed_wide: Annotated[int, "multiply-adds", "of wider floats that are worth packing"]
    packed_narrow: Annotated[
        int, "multiply-adds", "the same with fewer columns and as many terms as the next say"
    ]
    narrow_most: Annotated[
        int, "bytes", "of one operand of all multiply-adds, up to which one thread computes them"
    ]
    narrow_row: Annotated[
        int, "bytes", "of a row of the other matrix, from which on none are narrow"
    ]
    narrow_terms: Annotated[tuple[int, int], "terms", "fewer or more are not worth it"]
    library: Annotated[int, "multiply-adds", "from which on a library's call is worth it"]
    library_small: Annotated[int, "multiply-adds", "the same of element types of 8 bits and bf16"]
    library_each: Annotated[
        int, "multiply-adds", "of each product of a batch, for a library's call"
    ]
    library_rows: Annotated[int, "rows", "with fewer a library is not asked"]
    library_columns: Annotated[int, "columns", "with fewer a library is not asked"]
    most_f32: Annotated[
        int, "multiply-adds", "up to which products of f32 take less than a call's start"
    ]
    small_sides: Annotated[
        tuple[int, int],
        "elements",
        "least rows and columns, and most of either and of terms, of f32 that is not a library's either",
    ]
    far_f32: Annotated[
        int, "bytes", "of operands of f32 from which on a library takes longer than generated code"
    ]
    far_side: Annotated[int, "elements", "least rows and columns of such a product"]
    turns_f32: Annotated[
        bool,
        "yes or no",
        "such products, and those that the next two say, have a rhs of [n, k] too",
    ]
    turned_rows: Annotated[
        int, "rows", "from which on they have in any case: turning it takes little of the time then"
    ]
    flat_rows: Annotated[
        int, "rows", "up to which, with many columns, a library's copy of rhs costs most"
    ]
    flat_columns: Annotated[int, "columns", "that are many beside those rows"]
    swapped_rows: Annotated[
        int, "rows", "up to which a rhs of [n, k] is multiplied by lhs, rather than turned"
    ]
    swapped_sides: Annotated[
        int, "times", "the rows of such a product: its columns, and its terms, at least"
    ]
    swapped_vectors: Annotated[
        float, "times", "its rows, which its vectors take at most, but for a rhs beyond the caches"
    ]
    swapped_library: Annotated[float, "times", "the same of one that a library has, for any rhs"]
    swapped_few: Annotated[
        int, "vectors", "that at most 8 rows fill at least to be swapped rather than streamed"
    ]
    spread_rows: Annotated[
        int,
        "rows",
        "up to which f32 by a rhs of [k, n] is a library's, if the rows of rhs do not crowd in a cache",
    ]
    spread_rhs: Annotated[
        int,
        "bytes",
        "for each row of lhs, that such a rhs has at most: reading more decides the time",
    ]
    direct: Annotated[int, "bytes", "of a rhs that is read as fast where it lies as from panels"]
    direct_apart: Annotated[
        int,
        "bytes",
        "a rhs is not read so if its rows lie a multiple of this apart, for they crowd in a cache; 0: it is",
    ]
    turned_lhs: Annotated[
        int,
        "bytes",
        "of a lhs of [k, m], in the products' type, from which on it is transposed before: a tile reads a part of a "
        "line of each of its rows",
    ]
    turned_columns: Annotated[
        int,
        "columns",
        "of such a product that are worth it; one of f32 with fewer is a library's",
    ]
    copied_rows: Annotated[
        int, "rows", "up to which units of work copy the parts of rhs that they read"
    ]
    copied_rhs: Annotated[int, "bytes", "of a rhs of which units do so for any number of rows"]
    first_operands: Annotated[
        int,
        "bytes",
        "of both operands, up to which units of many rows copy the parts of a rhs before their tiles",
    ]
    first_lhs: Annotated[
        int,
        "bytes",
        "of a lhs, up to which units of all of its rows do so whatever the size of rhs",
    ]
    first_parts: Annotated[
        int,
        "bytes",
        "the same two where rows of a panel are parts of lines, for units of few rows too; 0: as the others",
    ]
    first_rhs: Annotated[int, "bytes", "of the smallest rhs of which they do so"]
    first_grouped_rhs: Annotated[
        int, "bytes", "the same where terms are multiplied in groups, as bytes and pairs are"
    ]
    first_rows: Annotated[int, "rows", "of such a unit"]
    first_fewest: Annotated[
        int,
        "rows",
        "from which on units do so that would copy a panel while its first tile is computed",
    ]
    made_rows: Annotated[
        int,
        "rows",
        "up to which units of work compute the parts that they use of a rhs that is made of other arrays",
    ]
    copied_reading: Annotated[
        float, "times", "the time that such a unit computes, which its reading takes at most"
    ]
    copied_complex: Annotated[
        int, "bytes", "of a complex rhs from which on units of work copy the parts that they read"
    ]
    copied_complex_rows: Annotated[int, "rows", "fewer are not worth those copies"]
    unrolled: Annotated[
        float, "ns", "that a product takes for which two steps of its loop are worth their code"
    ]
    library_types: Annotated[
        frozenset[str], "types of lhs", "besides f32 that a library multiplies faster"
    ]
    pairs_bf16: Annotated[
        bool, "yes or no", "an instruction multiplies pairs of bf16 faster than f32s are multiplied"
    ]
    pairs_small: Annotated[
        int, "multiply-adds", "up to which such a product takes less than a library's call"
    ]
    pairs_terms: Annotated[int, "terms", "from which on a larger one is as fast as a library's"]
    pairs_matrix: Annotated[
        int, "bytes", "of a rhs, larger than which reading it decides the time of few rows"
    ]
    pairs_columns: Annotated[
        float, "times", "the columns of its result, which the vectors of a larger one have at most"
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Convolutions:
    """Which convolutions of floats are generated although a library has them."""

    few_outputs: Annotated[
        int, "features", "less than the vector of outputs that a library computes"
    ]
    narrow_group: Annotated[int, "features", "of a group, in and out, for which a library is slow"]
    all_groups: Annotated[
        int,
        "features",
        "in all narrow groups together, features last, up to which forward ones are generated",
    ]
    depthwise: Annotated[
        int, "positions", "up to which a library's depthwise gradient of weights is fast"
    ]
    turns_strided_depthwise: Annotated[
        bool,
        "yes or no",
        "depthwise ones of two dimensions with a stride, features first, are computed with features last",
    ]
    generates_bf16: Annotated[bool, "yes or no", "generated code is faster for bf16, not depthwise"]
    tiles_bf16: Annotated[bool, "yes or no", "a library multiplies bf16 in tiles of matrices (AMX)"]
    matrix_features: Annotated[
        int, "features", "from which on, in and out, generated tiles of matrices are full"
    ]
    product_features: Annotated[
        int,
        "features",
        "out, and terms, from which on windows that lie apart are rows of a product (AMX)",
    ]
    product_rows: Annotated[
        int, "positions", "up to which the windows of a large kernel are rows of a product (AMX)"
    ]
    large_kernel: Annotated[
        int, "bytes", "of a kernel that takes a library, and tiles, long to lay out"
    ]
    generates_gradients: Annotated[
        bool, "yes or no", "it is for gradients of weights as the next two say"
    ]
    gradient_features: Annotated[int, "features", "from which on, in and out, a library's are fast"]
    gradient_terms: Annotated[int, "terms", "from which on a library's are fast"]
    generates_minor: Annotated[
        bool, "yes or no", "it is in f32 where positions, of one dimension, are minor"
    ]
    first_features: Annotated[
        int,
        "features",
        "in and out, up to which it is in f32, features first, where the width is whole vectors; of gradients of "
        "inputs half of them; 0: it is not",
    ]
    first_features_ragged: Annotated[
        int, "features", "the same of forward ones where the width is another one"
    ]
    generates_two_strides_first: Annotated[
        bool,
        "yes or no",
        "those whose windows are two of their strides long are in f32, features first, in two dimensions",
    ]
    first_group: Annotated[
        int,
        "features",
        "of a group, in and out, up to which forward ones are in f32, features first, if the width is whole vectors",
    ]
    first_input_features_ragged: Annotated[
        int, "features", "the same of gradients of inputs in such a width"
    ]
    last_features: Annotated[
        int,
        "features",
        "in and out, up to which plain ones are generated in f32, features last; of gradients of inputs twice as many",
    ]
    generates_first_few_inputs: Annotated[
        bool,
        "yes or no",
        "they are in f32 of up to few_outputs input features, features first, in any number of others; and gradients "
        "of weights in groups",
    ]
    generates_apart: Annotated[
        bool,
        "yes or no",
        "those whose windows have several elements and lie apart are in f32, and the gradients of their inputs",
    ]
    generates_first_points: Annotated[
        bool, "yes or no", "it is in f32 for windows of one element, features first, in any number"
    ]
    first_gradient_features: Annotated[
        int,
        "features",
        "in and out, from which on it is for gradients of weights of such widths; 0: it is not",
    ]
    generates_special_gradients: Annotated[
        bool,
        "yes or no",
        "it is in f32 for gradients of weights in groups or with strides",
    ]
    generates_wide_gradients: Annotated[
        bool, "yes or no", "it is in f32 where a library's gradients of weights are fast elsewhere"
    ]
    generates_group_inputs: Annotated[
        bool,
        "yes or no",
        "it is in f32 for gradients of inputs of narrow groups and of large depthwise windows, and not for those of "
        "weights of narrow groups",
    ]
    patch: Annotated[
        int, "positions", "of windows that lie apart, up to which bf16 gradients of weights are"
    ]
    pair_features: Annotated[
        int,
        "features",
        "in and out, from which on bf16 gradients of weights are generated in pairs, features last, in one or two "
        "dimensions; 0: none are",
    ]
    pair_zeros: Annotated[
        float,
        "part",
        "of a plain one's positions that are zeros behind its rows, up to which it is so generated",
    ]
    strided_pairs_first: Annotated[
        bool,
        "yes or no",
        "it is with features first too for windows of one element with a stride",
    ]
    pair_terms: Annotated[
        int, "terms", "up to which a plain one is so generated whatever its zeros; 0: none is"
    ]
    pair_dimensions: Annotated[
        int, "dimensions", "up to which gradients of strided and dilated ones are so generated"
    ]
    minor_pairs: Annotated[
        int,
        "gradients without a stride",
        "that one in one dimension with features first becomes, up to which it is so generated; 0: none is",
    ]
    vast_pairs: Annotated[
        int, "features", "in and out, from which on a plain one is so generated whatever its zeros"
    ]
    library_dilated: Annotated[
        bool,
        "yes or no",
        "a library is faster in bf16 for gradients of the weights of dilated ones in two dimensions",
    ]
    generates_most_gradients: Annotated[
        bool,
        "yes or no",
        "it is in f32 for gradients of weights, whatever their layout: of windows that lie apart, of one input "
        "feature, and of larger windows from gradient_features on",
    ]
    patches: Annotated[
        int,
        "elements",
        "of a window, from which on it is in f32 for windows that lie apart in an input of few features; 0: it is not",
    ]
    generates_apart_gradients: Annotated[
        bool,
        "yes or no",
        "it is in f32 for gradients of weights of windows that lie apart, of one element too, and of two to "
        "few_outputs input features, features last",
    ]
    few_window: Annotated[
        int,
        "elements",
        "of a window of so few input features, up to which it is for such gradients",
    ]
    vast_features: Annotated[
        int,
        "features",
        "in and out, from which on it is for gradients of weights of any number of terms, features last",
    ]
    point_features: Annotated[
        int,
        "features",
        "in and out, from which on f32 gradients of weights of windows of one element are products, features last",
    ]
    point_terms: Annotated[int, "positions", "of all images, up to which they are"]
    turned_point_terms: Annotated[
        int,
        "positions",
        "of all images, from which on in f32 the fewer of the features in and out are the rows of such a product, "
        "whose result is transposed then",
    ]
    bf16_point_features: Annotated[
        int, "features", "in and out, from which on those of bf16 are products"
    ]
    bf16_point_terms: Annotated[int, "positions", "of all images, up to which those of bf16 are"]
    strided_point_features: Annotated[
        int,
        "features",
        "in and out, from which on those with a stride are, in f32, f16 and bf16, of the positions that windows meet",
    ]
    first_points: Annotated[
        float,
        "times",
        "the elements of the kernel that each of several images and its result have at least where windows of one "
        "element, features first, are products of the kernel by each image, in f32, bf16 and f16; one image is in any "
        "case; 0: none are",
    ]
    first_positions: Annotated[
        int, "positions", "that each of several images has at least where they are such products"
    ]
    first_points_turned: Annotated[
        float,
        "times",
        "the elements of the kernel, that the image and the result have at least where such a product's kernel does "
        "not lie as [o, i], as that of a gradient of inputs, and is transposed",
    ]
    first_point_gradients: Annotated[
        int,
        "features",
        "in and out, from which on gradients of f32 weights of windows of one element, features first, are sums of a "
        "product for each image; 0: none are",
    ]
    first_gradient_image: Annotated[
        int,
        "elements",
        "that an image and its result's gradient have together at least where they are, in the positions that windows "
        "meet: they are read again and again otherwise",
    ]
    generates_strided_points: Annotated[
        bool, "yes or no", "it is in f32 for windows of one element with a stride, features first"
    ]
    generates_strided_point_inputs: Annotated[
        bool, "yes or no", "it is for the gradients of their inputs too"
    ]
    first_apart_width: Annotated[
        int,
        "positions",
        "of the width, from which on it is in f32 for windows that lie apart, and for the gradients of their inputs, "
        "in two dimensions or three, features first",
    ]
    first_apart_bf16: Annotated[int, "features", "in and out, up to which it is in bf16 for these"]
    f16_features: Annotated[
        int,
        "features",
        "in or out, up to which forward ones are in f16; gradients of inputs up to twice as many in and out; and for "
        "windows of one element; 0: as in f32 with features last",
    ]
    generates_f16_first: Annotated[bool, "yes or no", "it is in f16 as in f32, features first"]
    generates_bf16_first: Annotated[bool, "yes or no", "it is in bf16 as in f32, features first"]
    first_bf16_features: Annotated[
        int,
        "features",
        "in and out of a group, up to which it is in bf16, features first, but for gradients of weights; 0: it is not",
    ]
    first_bf16_any: Annotated[
        bool,
        "yes or no",
        "it is then in groups too, and for few input features and terms with strides",
    ]
    point_rows: Annotated[
        int,
        "positions",
        "of all images, up to which windows of one element are rows of a product of f32 or bf16; 0: none are",
    ]
    f32_point_rows: Annotated[
        int, "positions", "the same of f32 with features last, if the product is packed"
    ]
    f32_turned_point_rows: Annotated[
        int,
        "positions",
        "from which on those are whose kernel lies as [o, i], as in gradients of inputs, features last",
    ]
    bf16_point_rows: Annotated[
        int, "positions", "the same of bf16 with features last, if the product is packed"
    ]
    bf16_turned_point_rows: Annotated[
        int,
        "positions",
        "the same of these if the kernel lies as [o, i], as in gradients of inputs",
    ]
    first_bf16_point_rows: Annotated[
        int, "positions", "the same of bf16 with features first, which are transposed"
    ]
    first_strided_point_rows: Annotated[
        int, "positions", "the same of f32 with features first and a stride, which are transposed"
    ]
    f16_rows: Annotated[bool, "yes or no", "those of f16 are as those of bf16"]
    window_rows: Annotated[int, "positions", "the same of larger windows, of f32"]
    window_kernel: Annotated[int, "elements", "of the smallest kernel of these"]
    window_kernel_last: Annotated[
        int, "elements", "of the largest kernel of these, features last, of bf16 too"
    ]
    pair_rows: Annotated[int, "positions", "the same of bf16 in pairs"]
    pair_kernel: Annotated[int, "elements", "of the smallest kernel of these"]
    byte_features: Annotated[
        int,
        "features",
        "in and out, from which on windows of one element of bytes, or of few positions, are rows of a product in "
        "vectors; 0: none are",
    ]
    byte_rows: Annotated[int, "positions", "of all images that count as few then"]
    byte_kernel: Annotated[int, "elements", "of the smallest kernel of these"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Transposes:
    """Which transposes are turned about in registers, or gathered, for want of a dimension that fills vectors."""

    least: Annotated[int, "elements", "of a transpose from which on that pays"]
    runs: Annotated[int, "runs", "of memory, or dimensions, that it takes apart, at least"]
    short: Annotated[int, "elements", "of the last two of them in its result, at most"]
    row: Annotated[int, "elements", "at least of a row, whose places are a table"]
    longest_row: Annotated[
        int, "elements", "of a row, with a table that stays in the nearest cache"
    ]
    turned_runs: Annotated[
        int, "runs", "at least, of one that is turned last, when loops are fused"
    ]
    turned: Annotated[int, "elements", "that lie together in both of its arrays, at least"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Transforms:
    """How long Fourier transforms take: by it their lengths are taken apart. Instructions are those for a vector of
    numbers; small transforms' arithmetic is counted where it is written (codegen/kernels/butterflies.py).
    """

    unit: Annotated[float, "ns", "starting a unit of work"]
    instruction: Annotated[float, "ns", "a vector instruction"]
    through: Annotated[float, "instructions", "a pass through the nearest cache"]
    far_through: Annotated[float, "instructions", "a pass through the next cache"]
    spilled: Annotated[float, "instructions", "a number that does not fit the registers"]
    turned: Annotated[float, "instructions", "a number of a square that is turned in registers"]
    gathered: Annotated[float, "instructions", "a number that is read and written alone"]
    alone: Annotated[float, "instructions", "a single number that is moved away and back"]
    multiplied: Annotated[float, "instructions", "a number by a factor from memory"]
    together: Annotated[
        float,
        "times",
        "what rows of a prime length, one in each lane, take of what they are estimated to, beside convolutions of "
        "single rows",
    ]
    elementwise: Annotated[float, "instructions", "a number in a kernel of its own"]
    far: Annotated[float, "instructions", "a byte that is not in the nearer caches"]
    launch: Annotated[float, "instructions", "a kernel more"]
    widths: Annotated[
        tuple[float, ...], "times", "the time of vectors of all lanes, half of them, a quarter ..."
    ]
    whole: Annotated[int, "numbers", "of a transform whose factors are all in memory"]
    short: Annotated[int, "numbers", "of a transform that is not worth a second thread"]
    matrix: Annotated[int, "bytes", "of a matrix whose dimensions one kernel transforms"]
    ahead: Annotated[int, "bytes", "of an array from which on a unit asks for the next one's lines"]
    rows_ahead: Annotated[int, "bytes", "of an array of rows, likewise, where a unit is a row"]
    pages: Annotated[int, "pages", "whose addresses are at hand while a unit reads and writes"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """Products, softmax and products again in one kernel."""

    fewest: Annotated[int, "multiply-adds", "fewer are as fast in kernels of the parts"]
    units: Annotated[int, "units", "that attention which is not small is cut into"]
    rows: Annotated[int, "rows", "of queries that share a packed block of keys"]
    fewest_rows: Annotated[int, "rows", "of queries for which a block of keys is worth packing"]
    softmax: Annotated[float, "multiply-adds", "that a score's share of a softmax is worth"]
    gradient_softmax: Annotated[float, "multiply-adds", "the same with its gradient"]
    packed: Annotated[float, "ns", "packing an element of the keys"]
    gradient_block: Annotated[int, "rows", "of keys, and of queries, in a block of the gradient"]
    gradient_narrow: Annotated[int, "columns", "up to which blocks are so long"]
    gradient_wide_block: Annotated[int, "rows", "of a block with more columns"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """Blocks of a product's tiles that one unit of work computes, and its caches hold."""

    rows: Annotated[int, "rows", "of the result"]
    long_rows: Annotated[int, "rows", "where sums are long"]
    columns: Annotated[int, "columns", "of the result"]
    streamed_rows: Annotated[int, "rows", "of a matrix that streams by, in a step"]
    streamed_narrow: Annotated[
        int,
        "columns",
        "of such a matrix, more than which one row takes half as many rows of at once",
    ]
    streamed_columns: Annotated[int, "columns", "of such a matrix, whose sums are kept"]
    streamed_across: Annotated[
        int,
        "columns",
        "of such a matrix, as rows of memory, that are read beside each other where one row is multiplied by a matrix "
        "of at least memory.streamed_far bytes that is stored, and not made of several arrays",
    ]
    streamed_ahead: Annotated[
        int, "bytes", "of such a matrix between what is multiplied and what is fetched, at least"
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrices:
    """Products where instructions multiply matrices (AMX)."""

    multiply_adds: Annotated[float, "vectors/ns", "multiply-adds in tiles of packed operands"]
    panel: Annotated[int, "bytes", "of a panel that stays in a near cache"]
    copied_panel: Annotated[int, "bytes", "of a panel's part that is copied at a time"]
    rows: Annotated[int, "rows", "of the result in a block, which read a panel from afar once"]
    copied_rows: Annotated[
        int, "rows", "up to which units of work copy the parts of rhs that they read"
    ]
    gathered: Annotated[float, "cycles", "copying a byte of a window to a row of a product"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """How long library calls take on one core. The runtime decides by it where a program runs."""

    call: Annotated[float, "ns", "a call"]
    byte_rate: Annotated[float, "bytes/ns", "reading or writing arrays"]
    flops: Annotated[Mapping[str, float], "flops/ns", "of products, by element type"]
    other_flops: Annotated[float, "flops/ns", "of products of other element types"]
    matrix_flops: Annotated[float, "flops/ns", "of factorisations and solves"]
    lapack_flops: Annotated[float, "flops/ns", "of LAPACK's decompositions"]
    comparison: Annotated[float, "ns", "of a sort by keys"]
    called_comparison: Annotated[float, "ns", "of a sort with a comparator"]
    scanned: Annotated[float, "ns", "an element that is looked at for the largest ones"]
    butterfly: Annotated[float, "ns", "an element of each halving of a Fourier transform"]
    transposed_byte: Annotated[float, "ns", "writing a byte in another order"]
    meeting: Annotated[float, "ns", "waiting for the other devices"]
    exchanged: Annotated[float, "bytes/ns", "between devices"]
    custom_call: Annotated[float, "ns", "a call of the user's code"]
    custom_byte_rate: Annotated[
        float, "bytes/ns", "of its arrays, as if it read and wrote them once"
    ]

    def contraction_ns(self, multiply_adds: int, dtype: DType, bytes_accessed: int) -> float:
        """Nanoseconds of a matrix product or convolution."""
        compute = 2.0 * multiply_adds / self.flops.get(dtype.name, self.other_flops)
        return self.call + max(compute, bytes_accessed / self.byte_rate)

    def sort_ns(self, elements: int, length: int, *, called: bool) -> float:
        """Nanoseconds of sorting ``elements`` in rows of ``length``; ``called``: by calling a comparator."""
        each = self.called_comparison if called else self.comparison
        return self.call + elements * max(1.0, math.log2(max(length, 2))) * each


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """How long exchanges with other processes take, when collectives are put beside other work."""

    message: Annotated[float, "ns", "of an exchange, however small"]
    byte_rate: Annotated[float, "bytes/ns", "of its arrays"]
    least_overlap: Annotated[float, "ns", "of work beside it, for which another thread is worth it"]
    unknown_work: Annotated[float, "ns", "that a loop, or the user's code, is taken to last"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Thunks:
    """How long it takes to go from one thunk to the next, and when several become one function."""

    copy: Annotated[float, "ns", "a copy that is a thunk"]
    copied: Annotated[float, "bytes/ns", "that it moves"]
    inner_copy: Annotated[float, "ns", "a copy inside of a function"]
    inner_byte: Annotated[float, "ns", "a byte that it moves"]
    longest_kernel: Annotated[float, "ns", "of a kernel that may lose its threads in a function"]
    longest_iteration: Annotated[float, "ns", "of a loop for which the cost of thunks matters"]
    merged: Annotated[float, "ns", "up to which kernels share a launch; 0 if they never do"]
    smallest_view: Annotated[int, "bytes", "of a slice that is read where it lies, not copied"]
    alternated: Annotated[
        int,
        "bytes",
        "that a loop copies in each step, which are saved by several steps at a time; 0: it never takes them",
    ]
    alternated_steps: Annotated[int, "instructions", "that a loop may have more by that"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Costs:
    """All prices of a target.

    ``ops``: prices of ops that differ from those of their registrations, which are the host's. ``measured``: by a
    group's name, or ``group.number``, the command that measured the numbers, or :data:`JUDGEMENT`.
    """

    kernels: Kernels
    tiles: Tiles
    threads: Threads
    memory: Memory
    fusion: Fusion
    loops: Loops
    components: Components
    products: Products
    blocks: Blocks
    matrices: Matrices
    convolutions: Convolutions
    transposes: Transposes
    transforms: Transforms
    attention: Attention
    library: Library
    wire: Wire
    thunks: Thunks
    ops: Mapping[str, Price] = field(default_factory=dict)
    measured: Mapping[str, str] = field(default_factory=dict)

    def price(self, opcode: str) -> Price:
        """What an element of an op costs here."""
        if self.ops and opcode in self.ops:
            return self.ops[opcode]
        return OPS[opcode].price

    def instructions(self, i: Instruction) -> float:
        """Vector instructions that one element of ``i`` takes, roughly."""
        price = self.price(i.opcode)
        cost = price.instructions
        if isinstance(i.shape, Shape):
            if i.shape.dtype.is_complex:
                cost *= 4
            elif price.of_integers is not None and i.shape.dtype.is_integer:
                cost = price.of_integers.instructions
        return cost

    def nanoseconds(self, i: Instruction) -> float:
        """Nanoseconds that a full vector of ``i`` takes."""
        price = self.price(i.opcode)
        if price.of_integers is not None and i.operands[0].dtype.is_integer:
            price = price.of_integers
        return price.nanoseconds

    def weight(self, i: Instruction) -> float:
        """What an element of ``i`` costs to compute, in cheap vector instructions."""
        nanoseconds = self.nanoseconds(i)
        return max(1.0, nanoseconds / self.kernels.cheap) if nanoseconds else 0.0


__all__ = [
    "JUDGEMENT",
    "Attention",
    "Blocks",
    "Components",
    "Convolutions",
    "Costs",
    "Fusion",
    "Kernels",
    "Library",
    "Loops",
    "Memory",
    "Products",
    "Threads",
    "Thunks",
    "Tiles",
    "Transforms",
]
