"""The host's costs, and those of the host's side of other targets: measured on one CPU, and adapted to others.

The numbers are those of an Intel Xeon of 2023 (Sapphire Rapids class: AVX-512, no AMX) with all its instructions, and
kept to those of x86-64-v3. What depends on instructions follows from the CPU's features (:func:`costs_of`), and a few
numbers are those of a Zen 3, of a Zen 4 and of a Zen 5 (AMD EPYCs of 2021, 2023 and 2024). Those for AMX are a Xeon's
of the Emerald Rapids class.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from ..costs import (
    JUDGEMENT,
    Attention,
    Blocks,
    Components,
    Convolutions,
    Costs,
    Fusion,
    Kernels,
    Library,
    Loops,
    Matrices,
    Memory,
    Products,
    Threads,
    Thunks,
    Tiles,
    Transforms,
    Transposes,
    Wire,
)

# Which command measured which numbers.
_MEASURED: Final = MappingProxyType(
    {
        "kernels": JUDGEMENT,
        "kernels.scattered_place": "python -m benchmarks.scatter",
        "kernels.tiled_multiply_adds": "python -m benchmarks.products",
        "kernels.far_byte": "python -m benchmarks.products",
        "tiles": "python -m benchmarks.products",
        "tiles.copied_run": "python -m benchmarks.products",
        "tiles.window_start": "python -m benchmarks.convolutions",
        "tiles.window_step": "python -m benchmarks.convolutions",
        "tiles.moved": "python -m benchmarks.convolutions",
        "threads": JUDGEMENT,
        "threads.pair": "python -m benchmarks.products",
        "threads.scatter_streamed": "python -m benchmarks.scatter segment",
        "memory": JUDGEMENT,
        "memory.streamed": "python -m benchmarks.fused_products rows",
        "memory.streamed_far": "python -m benchmarks.fused_products rows",
        "memory.streamed_row": "python -m benchmarks.fused_products rows",
        "memory.streamed_run": "python -m benchmarks.fused_products rows",
        "memory.streamed_made": "python -m benchmarks.fused_products rows",
        "memory.bytes_ahead": "python -m benchmarks.fused_products rows",
        "memory.updates_ahead": "python -m benchmarks.scatter segment",
        "memory.columns_ahead": "python -m benchmarks.fused_products rows",
        "memory.merged_sums": "python -m benchmarks.fused_products rows",
        "memory.requests": "python -m benchmarks.products",
        "memory.ways": "python -m benchmarks.products",
        "memory.panel": "python -m benchmarks.products",
        "memory.block": "python -m benchmarks.products",
        "memory.groups_ahead": "python -m benchmarks.products",
        "memory.second": "python -m benchmarks.products",
        "threads.reading_units": "python -m benchmarks.products",
        "memory.past_caches": "python -m benchmarks",
        "fusion": JUDGEMENT,
        "fusion.epilogue": "python -m benchmarks.fused_products",
        "fusion.weights": "python -m benchmarks.fused_products rows",
        "fusion.short_row": "python -m benchmarks.short_rows",
        "fusion.chained_gain": "python -m benchmarks.solvers maxwell",
        "fusion.own_loop": "python -m benchmarks.short_rows",
        "loops": "python -m benchmarks.dimension_orders",
        "components": "python -m benchmarks.dimension_orders",
        "products": "python -m benchmarks.products",
        "products.few_rows": "python -m benchmarks.fused_products rows",
        "blocks": "python -m benchmarks.products",
        "matrices": "python -m benchmarks.products",
        "matrices.gathered": "python -m benchmarks.convolutions",
        "blocks.long_rows": "python -m benchmarks.convolutions",
        "blocks.streamed_rows": "python -m benchmarks.fused_products rows",
        "blocks.streamed_narrow": "python -m benchmarks.fused_products rows",
        "blocks.streamed_columns": "python -m benchmarks.fused_products rows",
        "blocks.streamed_across": "python -m benchmarks.fused_products rows",
        "blocks.streamed_ahead": "python -m benchmarks.fused_products rows",
        "convolutions": "python -m benchmarks.convolutions",
        "transposes": "python -m benchmarks.dimension_orders qubits",
        "transforms": "python -m benchmarks.fft",
        "attention": "python -m benchmarks.attention",
        "library": JUDGEMENT,
        "wire": JUDGEMENT,
        "thunks": JUDGEMENT,
        "thunks.smallest_view": "python -m benchmarks.layer_scans",
        "thunks.alternated": "python -m benchmarks.solvers",
    }
)

_HOST: Final = Costs(
    kernels=Kernels(
        call=10.0,
        nest=20.0,
        byte=0.015,
        product_byte=0.03,
        packed_byte=0.05,
        far_byte=0.08,
        cheap=0.25,
        multiply_adds=4.0,
        tiled_multiply_adds=5.0,
        transposed=2.0,
        convolution=0.4,
        window=0.5,
        scan=4.0,
        scan_element=0.05,
        selection=3.0,
        scattered_element=1.5,
        scattered_place=0.25,
        scattered_vector=2.0,
        random=4.0,
    ),
    tiles=Tiles(
        multiply_adds=2.0,
        loads=2.0,
        load_start=0.5,
        latency=4.0,
        step=0.25,
        parts_of_lines=1.05,
        copied_run=0.0,
        window_step=0.5,
        window_start=20.0,
        moved=1.0,
    ),
    threads=Threads(
        grain=6_500.0,
        unit=15_000.0,
        pair=9_000.0,
        units=16,
        product_units=16,
        long_units=6,
        reading_units=4,
        line_units=32,
        split_elements=1 << 17,
        split_results=64,
        split_rows=32,
        split_parts=64,
        scatter_elements=1 << 14,
        scatter_parts=32,
        scatter_each=4.0,
        scatter_streamed=1 << 22,
        scatter_walks=4,
    ),
    memory=Memory(
        line=64,
        way=1 << 12,
        ways=20,  # more than a tile has rows
        requests=16,
        panel=1 << 15,
        second=1 << 20,
        strip=24 << 10,
        sums=1 << 14,
        merged_sums=1 << 15,
        block=1 << 17,
        kept=1 << 18,
        planes=1 << 19,
        copied_panel=1 << 16,
        places=1 << 13,
        streamed=1 << 18,
        streamed_far=1 << 62,  # no matrix
        streamed_row=0,
        streamed_run=0,
        streamed_made=1 << 15,
        # With 32 MB of L3, exp on 16 MB, which moves 32 MB, takes a third longer past the caches.
        past_caches=3 << 24,
        # With a power of two as row length all lines of a tile compete for a few places.
        transposed_past_caches=1 << 24,
        bytes_ahead=1024,
        columns_ahead=1 << 16,
        rows_ahead=8,
        updates_ahead=1 << 13,
        groups_ahead=0,
    ),
    fusion=Fusion(
        cheap=2.0,
        expensive=5.0,
        recomputed=24.0,
        most=600.0,
        repeated=16.0,
        row=1 << 15,
        kept=3.0,
        short_row=512,
        function=1.5,
        own_loop=60.0,
        mask=24.0,
        epilogue=120.0,
        weights=8.0,
        weights_read=1.25,
        chained=1 << 16,
        chained_rows=256,
        chained_gain=1.25,
    ),
    components=Components(least=4096, least_component=64, moved=0.5, members=64, spread=8.0),
    loops=Loops(
        carried=8,
        latency=8.0,
        enough_work=0.7,
        shared=4.0,
        strip=8,
        numbers=6.0,
        repeated=64.0,
        late_gain=1.5,
        late_states=2.0,
        late_kept=1.0,
        late_saving=1000.0,
        late_sums=4096,
        late_factors=0.5,
        late_stacks=0.5,
        lane=5.0,
        slow_masks=False,
    ),
    products=Products(
        few_rows=8,
        packed_rows=5,
        packed_each=40**3,
        packed_integers=40**3,
        packed_small=64**3,
        packed_wide=80**3,
        packed_narrow=80**3,
        narrow_most=2_000_000,
        narrow_row=0,  # no product
        narrow_terms=(20, 500),
        library=80**3,
        library_small=64**3,
        library_each=32**3,
        library_rows=5,
        library_columns=2,
        most_f32=112**3,
        small_sides=(64, 224),
        far_f32=1 << 62,  # no product
        far_side=512,
        turns_f32=True,
        turned_rows=1 << 62,  # no product
        flat_rows=128,
        flat_columns=1024,
        swapped_rows=0,  # no product
        swapped_sides=4,
        swapped_vectors=1.35,
        swapped_library=1.15,
        swapped_few=0,
        spread_rows=0,  # no product
        spread_rhs=400_000,
        direct=1 << 19,
        direct_apart=0,
        turned_lhs=1 << 62,  # none
        turned_columns=128,
        copied_rows=128,
        copied_rhs=0,
        first_operands=0,
        first_lhs=0,
        first_parts=0,
        first_rhs=1 << 18,
        first_grouped_rhs=1 << 18,
        first_rows=512,
        first_fewest=1 << 62,  # no product
        made_rows=512,
        copied_reading=0.25,
        copied_complex=1 << 15,
        copied_complex_rows=24,
        unrolled=100_000.0,  # two steps take 2 ms longer to compile and 2 % less time
        library_types=frozenset(),
        pairs_bf16=False,
        pairs_small=128**3,
        pairs_terms=128,
        pairs_matrix=0,
        pairs_columns=1.08,
    ),
    blocks=Blocks(
        rows=128,
        long_rows=640,
        columns=256,
        streamed_rows=8,
        streamed_narrow=0,
        streamed_columns=1024,
        streamed_across=8,
        streamed_ahead=1 << 13,
    ),
    matrices=Matrices(
        multiply_adds=20.0,
        panel=1 << 17,
        copied_panel=1 << 16,
        rows=512,
        copied_rows=512,
        gathered=0.17,
    ),
    convolutions=Convolutions(
        few_outputs=4,
        narrow_group=8,
        all_groups=1 << 62,  # any
        depthwise=9,
        turns_strided_depthwise=False,
        generates_bf16=False,
        tiles_bf16=False,
        matrix_features=16,
        product_features=128,
        product_rows=1024,
        large_kernel=3 << 19,
        # oneDNN computes those with many features and terms in less than two thirds of the time of others.
        generates_gradients=True,
        gradient_features=128,
        gradient_terms=2048,
        generates_minor=False,
        first_features=0,
        first_features_ragged=0,
        generates_two_strides_first=False,
        first_group=0,
        first_input_features_ragged=0,
        last_features=0,
        generates_first_few_inputs=False,
        generates_apart=False,
        generates_first_points=False,
        first_gradient_features=0,
        generates_special_gradients=False,
        generates_wide_gradients=False,
        generates_group_inputs=False,
        patch=1 << 62,  # any
        pair_features=0,
        pair_zeros=0.05,
        strided_pairs_first=False,
        pair_terms=0,
        pair_dimensions=2,
        minor_pairs=0,
        vast_pairs=1 << 62,  # none
        library_dilated=False,
        generates_most_gradients=False,
        patches=0,
        generates_apart_gradients=False,
        few_window=1 << 62,  # any
        vast_features=1 << 62,  # none
        point_features=1 << 62,
        point_terms=1 << 62,  # any
        turned_point_terms=1 << 62,  # any are as they lie
        bf16_point_features=1 << 62,
        bf16_point_terms=1 << 62,  # any
        strided_point_features=1 << 62,
        first_points=0.0,
        first_points_turned=0.0,
        first_positions=0,
        first_point_gradients=0,
        first_gradient_image=0,
        generates_strided_points=False,
        generates_strided_point_inputs=False,
        first_apart_width=1 << 62,  # none
        first_apart_bf16=0,
        f16_features=0,
        generates_f16_first=False,
        generates_bf16_first=False,
        first_bf16_features=0,
        first_bf16_any=False,
        point_rows=0,
        f32_point_rows=0,
        f32_turned_point_rows=0,
        bf16_point_rows=0,
        bf16_turned_point_rows=1 << 62,
        first_bf16_point_rows=0,
        first_strided_point_rows=0,
        f16_rows=False,
        window_rows=0,
        window_kernel=1 << 19,
        window_kernel_last=1 << 62,  # any
        pair_rows=0,
        pair_kernel=1 << 15,
        byte_features=0,
        byte_rows=128,
        byte_kernel=1 << 15,
    ),
    transposes=Transposes(
        least=1 << 12,
        runs=6,
        short=9,
        row=64,
        longest_row=1 << 12,
        turned_runs=3,
        turned=1 << 8,
    ),
    transforms=Transforms(
        unit=5.0,
        instruction=0.2,
        through=8.0,
        far_through=12.0,
        spilled=1.5,
        turned=6.0,
        gathered=24.0,
        alone=4.0,
        multiplied=3.0,
        together=1.0,
        elementwise=6.0,
        far=0.3,
        launch=400.0,
        widths=(1.0, 0.6, 0.45, 0.4, 0.4),
        whole=1 << 15,
        short=1 << 12,
        matrix=5 << 17,
        ahead=1 << 20,
        rows_ahead=1 << 22,
        pages=1 << 11,
    ),
    attention=Attention(
        fewest=1 << 17,
        units=32,
        rows=256,
        fewest_rows=48,
        softmax=24.0,
        gradient_softmax=32.0,
        packed=0.25,
        gradient_block=96,
        gradient_narrow=128,
        gradient_wide_block=48,
    ),
    library=Library(
        call=1_000.0,
        byte_rate=20.0,
        flops=MappingProxyType(
            {"f32": 200.0, "bf16": 400.0, "f16": 200.0, "s8": 400.0, "u8": 400.0, "f64": 20.0}
        ),
        other_flops=20.0,
        matrix_flops=20.0,
        lapack_flops=4.0,
        comparison=1.0,
        called_comparison=6.0,
        scanned=1.0,
        butterfly=1.0,
        transposed_byte=0.1,
        meeting=5_000.0,
        exchanged=10.0,
        custom_call=1_000.0,
        custom_byte_rate=4.0,
    ),
    wire=Wire(
        message=50_000.0,  # a network of 10 Gbit/s
        byte_rate=1.0,
        least_overlap=20_000.0,
        unknown_work=100_000.0,
    ),
    thunks=Thunks(
        copy=20.0,
        copied=20.0,
        inner_copy=5.0,
        inner_byte=0.03,
        longest_kernel=10_000.0,
        longest_iteration=20_000.0,
        merged=0.0,
        # A scan over layers of 64x64 f32, whose loop is one function without views, takes 0.8 of the time with them.
        smallest_view=1 << 14,
        alternated=1 << 14,
        alternated_steps=400,
    ),
    measured=_MEASURED,
)


@functools.cache
def costs_of(cpu: str, features: frozenset[str]) -> Costs:
    """The costs of a CPU: ``cpu`` and ``features`` are LLVM's names."""
    types = set()
    if "amx-bf16" in features:
        types.add("bf16")
    # vdpbf16ps, which oneDNN uses, is as fast as a multiply-add of f32 on Zen and half as fast on Intel's CPUs.
    pairs = "avx512bf16" in features and cpu.startswith("znver")
    if pairs:
        types.add("bf16")
    has_avx512 = "avx512f" in features
    convolutions = replace(
        _HOST.convolutions,
        generates_bf16=has_avx512 and "bf16" not in types,
        tiles_bf16="amx-bf16" in features,
        generates_gradients=not has_avx512,
        # A Zen 5, Gop/s of s8, and kept to AVX-512 without VNNI, AVX2 with and without VNNI, and SSE: 1x1 of 64 to 64,
        # 4x56x56, 814 and 841, 339 and 412, 441 and 487, 159 and 201, 68 and 86; of 24 to 144 743 and 714, 402 and 289.
        byte_features=32 if "sse4.2" in features and "amx-int8" not in features else 0,
    )
    products = replace(_HOST.products, library_types=frozenset(types), pairs_bf16=pairs)
    transforms = _HOST.transforms
    if not has_avx512:
        # A Zen 3, one thread, us one by one and together: 256 x 331 complex64 627 and 197, complex128 838 and 409; 21 x
        # 251 of them 35 and 28, 69 and 33. They are estimated to take 0.74 to 1.01 and 0.93 to 1.03 times as long.
        transforms = replace(transforms, together=0.7)
    memory = _HOST.memory
    if has_avx512 and not cpu.startswith("znver"):
        # 14 rows have a new line each every 16 steps of f32, more than the core looks ahead for. A step of so many rows
        # takes as long as copying a row of rhs; with AVX2 f64 384 took 1.3 times as long with such copies.
        memory = replace(memory, groups_ahead=32)
        products = replace(products, copied_rows=256, copied_rhs=1 << 21, far_f32=15 << 19)
    if "avx512fp16" in features and not types:
        # Sapphire and Emerald Rapids without AMX; GFLOP/s of one core. Bytes of 512 and 1024: 630 and 653, with copies
        # before the tiles 727 and 719; 16 rows by 4096 x 4096 123 and 227.
        products = replace(products, first_parts=1 << 22)
        convolutions = replace(
            convolutions,
            # Gradients of weights of 3x3 of 512, 7x7: f32 60, generated 110; of 128, 8x28x28 148 and 140.
            generates_wide_gradients=True,
            gradient_terms=1 << 62,
            vast_features=512,
            # ... of 1x1 of 512 to 2048, 8x7x7: f32 93, as a product 118; of 256 to 64, 8x56x56 111 and 80.
            point_features=256,
            point_terms=512,
            # ... of 256 to 64, 8x56x56: bf16 31, as a product 71; of 256 to 512 with stride 2 49 and 121.
            bf16_point_features=32,
            strided_point_features=64,
            # 2048 to 512 of 7x7, whose kernel a library lays out anew: f32 46, as a product 92; bf16 56 and 134.
            point_rows=512,
            # 1x1 of 256 to 64, 8x56x56: bf16 74, as a product 115.
            bf16_point_rows=1 << 62,
            # 3x3 of 512, 7x7: bf16 54, as a product 140; of 256, 14x14 as fast; of 128, 28x28 105 and 93.
            pair_rows=400,
            pair_kernel=1 << 20,
            # 1x1 with features first, 256 to 64, 8x56x56: f32 65, as products 121; of 256 to 1024, 8x14x14, as fast.
            first_points=4.0,
        )
    name = cpu.partition("+")[0]
    kernels, tiles, blocks = _HOST.kernels, _HOST.tiles, _HOST.blocks
    if name == "znver3":
        # A library multiplies up to 128 rows by a rhs of [k, n] faster than units of work that copy its parts, unless
        # the rows of rhs lie a multiple of 2 KB apart, which takes it half as long again, or reading rhs takes long.
        products = replace(
            products,
            packed_small=40**3,
            packed_narrow=50**3,
            narrow_row=1024,
            far_f32=0,
            far_side=1,
            swapped_rows=256,
            swapped_few=2,  # a vector of 8 rows of f32 takes 1.3 times as long as reading along [n, k]
            spread_rows=128,
            # Panels of such rows have a fourth of the nearest cache, of 32 KB and eight ways, or less.
            direct_apart=256,
            # 3072x768x1568 by a lhs of [k, m]: f32 36, transposed before 74, a library 63; 256x64x25088 19, 31 and 47.
            turned_lhs=1 << 18,
            first_operands=1 << 23,
            first_lhs=1 << 22,
            # A line of each row, in another page, takes longer to come than long runs of rows do.
            first_fewest=64,
        )
    if name in ("znver4", "znver5"):
        # Of rows that are a way apart 6, of tiles of four vectors, are faster than 14, though a Zen 5 has twelve ways.
        memory = replace(memory, ways=6)
        # A library's copy of a rhs of [k, n] takes longer than ours for f32 of any size, turning one of [n, k] less.
        # Packed tiles waste less than the "dot" kernel's blocks from 50^3 on.
        products = replace(
            products,
            packed_narrow=50**3,
            narrow_row=1024,
            copied_rows=512,
            far_f32=0,
            far_side=1,
            turns_f32=False,
            swapped_rows=256,
            pairs_matrix=1 << 24,
        )
        convolutions = replace(convolutions, generates_minor=True, generates_special_gradients=True)
    if name == "znver4":
        # Lines that wait in the nearest cache, of 32 KB, push those of the few rows out of it, which are read again and
        # again. A matrix of f32 of 4 MB, from the third cache, takes 1.1 times as long so if the program has no other
        # arrays; sixty of 3.5 MB, which come from memory, take 0.6 to 0.7 of the time.
        # One row by bf16 [k, n], 2048 x 2048, in four runs through memory 24 GB/s, in one 31.
        memory = replace(memory, groups_ahead=16, streamed_far=1 << 23, streamed_run=1 << 14)
        # Packing such a rhs as a whole takes as long, and its memory a second time.
        # f32 by [n, k], 4096x768x768: a library 107.5, turned and packed 113; 196 rows 107 and 105.
        products = replace(
            products,
            first_operands=1 << 23,
            first_rhs=1 << 21,
            first_grouped_rhs=1 << 21,
            turned_rows=1 << 10,
        )
        convolutions = replace(
            convolutions,
            # 16x16 patches of bf16: 102 GFLOP/s, a library 183. 4x4 transposed by 2: 46 and 94.
            patch=64,
            library_dilated=True,
            pair_features=32,
            # 1x1, whose kernel a library lays out anew: 2048 to 512 of one image of 7x7 in f32 63 GFLOP/s, as a product
            # 109, in bf16 63 and 218; of 8 images of 56x56, 256 to 64, f32 94 and 111, bf16 176 and 202.
            point_rows=512,
            f32_point_rows=1 << 62,
            bf16_point_rows=1 << 62,
            # Its input's gradient 177 and 167; of 256 to 1024, 8x14x14, 214 and 218.
            bf16_turned_point_rows=1 << 11,
            # 1x1 with features first, 256 to 64, 8x56x56: f32 62, generated 95, as products 108.
            generates_first_points=True,
            first_points=4.0,
            # The input's gradient of 512 to 2048 of 7x7, whose kernel lies as [i, o]: bf16 117, with features last 164.
            first_points_turned=1.0,
            # 1024 to 256, 8x14x14: bf16 152, as a product with features last 188; f32 107 (generated) and 94.
            first_bf16_point_rows=1 << 62,
            # 256 to 512 with stride 2, 8x56x56: f32 75, generated 95; its input's gradient 80 and 71.
            generates_strided_points=True,
            # 3x3 of 16, 4x64x64, features first: f32 96, generated 109; of 64 94 and 104.
            first_features=64,
            first_features_ragged=16,
            # The input's gradient of 3x3 of 8, 28x28: f32 21, generated 90.
            first_input_features_ragged=8,
            # 3x3 of 8, 4x28x28: bf16 48, generated 83; of 64 in 8 groups, 4x56x56, 130 and 90; of 3 to 32 with stride
            # 2, 4x224x224, 84 and 53.
            first_bf16_features=8,
            # 4x4 patches of three features, 4x112x112: f32 102, generated 109; features first 54 and 95.
            patches=16,
            # Gradients of weights, features first, 1x1 of 1024 to 256, 4x14x14: f32 83, generated 105; of 3x3 of three
            # features, features last, 4x64x64 89 and 113, of 7x7 with stride 2 87 and 77.
            generates_apart_gradients=True,
            few_window=9,
            # ... of 3x3 of 32, 4x32x32, features first: 92 and 109; of 64, 4x64x64 90 and 93.
            first_gradient_features=32,
            # ... of 256 to 512 with stride 2, 4x56x56, features first: bf16 48, in pairs 136.
            strided_pairs_first=True,
            # 256 to 1024, 4x14x14: f16 65, generated 101.
            generates_f16_first=True,
            # Gradients of weights of 1x1 of 64 to 256, 8x56x56: f32 68, as a product 104.
            point_features=16,
            point_terms=1 << 62,
            turned_point_terms=512,
            # ... of 1024 to 256, 8x14x14: bf16 180, as a product 187; of 256 to 64, 8x56x56 144 and 133.
            bf16_point_features=32,
            bf16_point_terms=1 << 12,
            # ... of 256 to 512 with stride 2 from 56x56: f32 64 and 87.
            strided_point_features=64,
            # 3x3 of 512, one image of 7x7: f32 80, as a product 110, bf16 102 and 215; of 8 images 224 either way.
            window_rows=200,
            pair_rows=200,
            # Its weights' gradient: f32 62, generated 91; of 256, 14x14, as fast.
            generates_wide_gradients=True,
            gradient_terms=1 << 62,
            vast_features=512,
        )
    if name == "znver5":
        # Two multiply-adds of 64 bytes a cycle of 4.3 GHz are done before narrow parts of rows have come.
        kernels = replace(kernels, tiled_multiply_adds=8.0)
        tiles = replace(tiles, copied_run=1.0)
        # One run through memory is fetched faster than four beside each other. A row of 32 KB is pushed out of the
        # nearest cache, of 48 KB, by what streams by: then it is read for four columns at a time.
        memory = replace(memory, streamed_row=1 << 14, streamed_run=1 << 14)
        # A short row is over before its lines come: eight are read at once. Bf16 of 2048 columns would take 1.1 times
        # as long so.
        blocks = replace(blocks, streamed_narrow=1536)
        # Pairs take a fourth of the time of the "dot" kernel, which converts bf16 to f32.
        # Packing a rhs of floats of 3 MB and more as a whole takes as long, and its memory a second time: f32 1024^3
        # 243.6 to 244.6 GFLOP/s, packed 243.6 to 244.4. Of pairs 1024x1536x1024 455 to 473, packed 486 to 488; of bytes
        # 1024^3 917 to 960, packed 971 to 973.
        products = replace(
            products,
            packed_small=40**3,
            first_operands=1 << 23,
            first_rhs=3 << 20,
            first_grouped_rhs=1 << 62,  # no matrix
        )
        convolutions = replace(
            convolutions,
            generates_wide_gradients=True,
            generates_group_inputs=True,
            patch=64,
            # 4x4 transposed by 2: 111 GFLOP/s, a library 129.
            library_dilated=True,
            # 64x64, whose zeros are 0.03: 372 to 387 GFLOP/s, in pairs 398 to 414; 56x56, 0.035: 332 and 329.
            pair_features=32,
            pair_zeros=0.032,
            pair_terms=512,
            # 3x3x3 of 32, dilated by 2: bf16 79, in pairs 324; 1-d, 3, of 512 with stride 2, features first, 167 and
            # 279; 16 with stride 8 324 and 189; 3x3 of 512, 8x14x14, 257 and 336.
            pair_dimensions=3,
            minor_pairs=2,
            vast_pairs=512,
            first_features=64,
            first_features_ragged=16,
            first_gradient_features=32,
            generates_first_points=True,
            generates_strided_points=True,
            generates_strided_point_inputs=True,
            # 4x4 patches of 64, 2x64x64, features first: f32 138, generated 242, bf16 158 and 222; 2x2 ones of 256,
            # 14x14, f32 218 and 204; of 96 to 192, 4x56x56, bf16 287 and 205.
            first_apart_width=16,
            first_apart_bf16=64,
            # 3x3 of 192, 4x28x28, with stride 2, features first: f32 17.6, between two transposes 29.3; bf16 10.9 and
            # 32.9; s8 19.8 and 56.8.
            turns_strided_depthwise=True,
            # oneDNN's are of f32: converting f16 takes it longer than what it gains.
            f16_features=16,
            generates_f16_first=True,
            first_bf16_features=8,
            first_bf16_any=True,
            # 2x2 of 4 features, features last, take 1.15 times as long as a library's.
            patches=16,
            generates_apart_gradients=True,
            vast_features=512,
            point_features=64,
            # oneDNN lays out the kernel anew: 512 to 2048 of 7x7 787 us in bf16, as a product 248.
            point_rows=512,
            window_rows=200,
            pair_rows=400,
        )
    if name == "znver3":
        # oneDNN's gradients of weights reach half of what its forward convolutions do there.
        convolutions = replace(
            convolutions,
            generates_most_gradients=True,
            gradient_features=8,
            patches=1,
            generates_group_inputs=True,
            narrow_group=16,
            all_groups=384,  # positions that are 512 features of f32 apart share few places of the nearest cache
            generates_minor=True,
            # 3x3 of 32, 32x32, features first: 66, generated 84, PyTorch 56; of 64 in 64x64 56 and 70 (four images).
            first_features=64,
            first_features_ragged=16,
            first_input_features_ragged=8,
            # 4 groups of 32, 4x32x32, features first: 53, generated 66; its input's gradient 66 and 57.
            first_group=32,
            # 4x4 with stride 2, 4x32x32, 64 to 128, features first: 49, generated 66; of 256 to 512, 16x16, 39 and 47.
            generates_two_strides_first=True,
            # 3x3 of 192, 4x28x28, with stride 2, features first: 1.8, between two transposes 3.7.
            turns_strided_depthwise=True,
            # 3x3 of 8, 28x28, features last: 27 and 46; the input's gradient of 16, 64x64, 60 and 70.
            last_features=8,
            # 3x3 of 4 to 320, 32x32, features first: 60 and 81; weights' gradients in groups of 32 57 and 75.
            generates_first_few_inputs=True,
            # 2x2 patches of 96 to 192: 44 and 56; their inputs' gradients 39 and 69.
            generates_apart=True,
            generates_first_points=True,
            # Weights' gradients of 3x3 of 3 to 64, features last: 38 and 60; of 1x1 of 160 to 960, 7x7, first, 43 and
            # 75.
            generates_apart_gradients=True,
            few_window=9,
            # 1x1, whose kernel a library lays out anew: 512 to 2048 of 7x7 27, as a product 43; of 64 to 256, 56x56, 58
            # and 72; features first, the same, 30, generated 44, as a product 64.
            point_rows=512,
            f32_point_rows=1 << 62,
            # The input's gradient of 320 to 1280, 7x7: 45 and 35; of 160 to 960, 8x7x7, 62 and 71.
            f32_turned_point_rows=256,
            # 8 images, features first, 1024 to 256 of 14x14: generated 50, as products 70; of 512 to 512 40 and 50; of
            # 512 to 2048 of 7x7 61 and 36.
            first_points=0.5,
            first_positions=128,
            first_points_turned=0.9,
            # Weights' gradients of 8 images, features first, of 512 to 128 of 28x28: generated 35, as products 55; of
            # 512 to 1024 with stride 2 34 and 61; of 256 to 256 of 14x14, whose images stay in a cache, 68 and 62.
            first_point_gradients=48,
            first_gradient_image=200_000,
            # 512 to 1024 with stride 2, 8x28x28, features first: 50 and 67.
            first_strided_point_rows=1 << 62,
            # 3x3 of 512, 7x7: 47 and 66; of 640, 16x16, 26 and 56.
            window_rows=256,
            window_kernel_last=1 << 23,  # of 1280, 8x8, 55 and 46
            # Weights' gradients of 1x1 of 256 to 1024, 14x14: 40 and 68.
            point_features=8,
            point_terms=1 << 62,
            turned_point_terms=512,
            strided_point_features=8,
            # bf16 and f16, which oneDNN multiplies as f32: 1x1 of 64 to 256, 4x56x56, 46 and 60, its weights' gradient
            # 28 and 51; features first with stride 2, 512 to 1024, 4x28x28, 42 and 57.
            bf16_point_rows=1 << 62,
            first_bf16_point_rows=1 << 62,
            bf16_point_features=8,
            pair_rows=256,
            pair_kernel=1 << 19,
            f16_rows=True,
            generates_f16_first=True,
            generates_bf16_first=True,
        )
    # A step of two choices and a subtraction (inventory_loop of benchmarks.rivals) takes 3.0 ns with masks on Zen 4,
    # 2.4 without. Other makers' CPUs were not measured.
    loops = replace(_HOST.loops, slow_masks=has_avx512 and cpu.startswith("znver"))
    return replace(
        _HOST,
        kernels=kernels,
        tiles=tiles,
        memory=memory,
        products=products,
        convolutions=convolutions,
        loops=loops,
        blocks=blocks,
        transforms=transforms,
    )


#: The threads for which the sizes above cut work.
USUAL_THREADS: Final = 4


def costs_with_threads(costs: Costs, count: int) -> Costs:
    """``costs`` where ``count`` threads want work: products, convolutions and attention are cut into smaller units for
    many, and products that read for as long as they compute into larger ones for few. As many go through what a scatter
    streams.

    Only what decides where units end: no number that a program computes depends on it.
    """
    if count < USUAL_THREADS:
        # Two units of the latter read each operand less often than four. Other units are as fast where they are small.
        threads = replace(
            costs.threads,
            reading_units=min(count, costs.threads.reading_units),
            scatter_walks=2,
        )
        return replace(costs, threads=threads)
    if count == USUAL_THREADS:
        return costs
    more = count // USUAL_THREADS
    threads, blocks, attention = costs.threads, costs.blocks, costs.attention
    # A row of 256 columns is what is left of what processors fetch ahead.
    columns = max(blocks.streamed_columns // more, min(blocks.streamed_columns, 256))
    return replace(
        costs,
        threads=replace(
            threads,
            product_units=threads.product_units * more,
            long_units=threads.long_units * more,
            reading_units=threads.reading_units * more,
            scatter_walks=threads.scatter_walks * more,
        ),
        blocks=replace(blocks, streamed_columns=columns),
        attention=replace(attention, units=max(attention.units, USUAL_THREADS * count)),
    )


__all__ = ["USUAL_THREADS", "costs_of", "costs_with_threads"]
