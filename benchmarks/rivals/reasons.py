"""Why a program is slower than its best rival, or takes more memory than with XLA:CPU: what a profile of it, or its
assignment of buffers, showed. For the lists on docs/performance.md.
"""

from typing import Final

_MKL = (
    "the best rival calls oneMKL; not profiled on two threads (on one thread our kernels take about half of "
    "SciPy's time, docs/fft.md)"
)
_LIMIT = (
    "the kernel, ours on a Zen 4 and oneDNN's elsewhere, runs at the limit: on one thread it takes twice the time of "
    "two; what is left is JAX's dispatch, and what a measurement repeats to"
)
_DISPATCH = "a few microseconds are JAX's dispatch, which torch's and NumPy's calls do not have"

REASONS: Final[dict[str, str]] = {
    "cholesky_1000": "a quarter of the time is OpenBLAS's triangular solves beside the diagonal; the best rival calls "
    "oneMKL",
    "depthwise_convolution": "a single call of jaxlib 0.4.31 took 508 us; the shortest of each other turn of its took "
    "934 us or more, and of ours 600 to 662 us",
    "eigh_300": "two thirds of the time are the tridiagonal form and its divide and conquer, which are OpenBLAS's; the "
    "best rival calls oneMKL's",
    "lstm_f32": "on two quiet cores of a Zen 4 it runs at 80 % of the limit, and medians are equal; beside other "
    "work its threads, which wait for each other in each of 200 steps, lose more than the best rival's",
    "smollm2_tokens_bf16": "one thread takes 0.80 of the time of llama.cpp's; two take 0.77 of one thread, llama.cpp's "
    "0.57: blocks are steps of 64 columns, so that two threads take 320 each of 576 and 128 each of 192",
    "smollm2_tokens_f32": "one thread of a Zen 4 reads the matrices at 0.8 to 1.0 of memory's speed since they are "
    "fetched past the nearest cache (0.74 of the time before); what two threads lose was not found",
    "smollm2_tokens_s4": "llama.cpp's kernels round the row to 8 bits and multiply in integers; ours keep its digits",
    "triangular_solve_1000": "not profiled on this machine; the best rival calls oneMKL",
    "fft_1024": _MKL,
    "fft_prime_1009": _MKL,
    "fftn_200": _MKL,
    "image_warp": "most of the time of its one kernel is four gathers, half a nanosecond an element on Zen 4",
    "product_bf16_512": _LIMIT,
    "product_bf16_1024": _LIMIT,
    "product_f32_64": _DISPATCH,
    "product_f32_256": _LIMIT,
    "product_f32_512": _LIMIT,
    "product_f32_1024": _LIMIT,
    "product_s8_256": f"{_DISPATCH}; its kernels multiply as fast as those of larger products",
    "product_s8_512": "the kernel multiplies at 98 % of the limit; 20 us are packing an operand and JAX's dispatch",
    "product_s8_1024": "the kernel multiplies at the limit; packing an operand takes 1 to 2 %",
    "rfft2_256": _MKL,
    "rfft2_360": _MKL,
    "svd_400": "the bidiagonal form and its divide and conquer are OpenBLAS's; the best rival calls oneMKL's",
    "triangular_solve_1000_1": "the matrix is read once: part of the difference is JAX's dispatch, the rest was not "
    "profiled",
}

_PADDED = (
    "the input is copied with its padding, where the convolution is generated; oneDNN, elsewhere, copies the input and "
    "the result of some images at a time into blocks of channels"
)
_HUGE = "the last page of 2 MB of an array is held whole where less than 256 KB of it are left over"
_PACKED = (
    "an operand is packed for the processor's products; on a Zen 3, 4 or 5 units of work copy the parts of "
    "larger ones of floats that they use"
)
MEMORY_REASONS: Final[dict[str, str]] = {
    "convolution": _PADDED,
    "convolution_in_loop": _PADDED,
    "inverse_16_batch": "the arrays take as much as XLA's; a quarter of a megabyte, whatever the batch, comes on top",
    "jaxley_cell_gradient": "what the forward loop stacks for the gradient, 401 steps of some 50 small arrays; which "
    "of them XLA does without was not looked at",
    "product_f32_512": _PACKED,
    "product_f32_1024": _PACKED,
    "product_s8_512": _PACKED,
    "product_s8_1024": _PACKED,
    "rfft2_360": _HUGE,
    "rfft_f64_1000": _HUGE,
    "svd_400": "LAPACK's workspace of the bidiagonal form, and the singular vectors of it beside the real ones",
}
