"""Why a program is slower than its best rival: what a profile of it showed. For the list on docs/performance.md."""

from typing import Final

_MKL = (
    "the best rival calls oneMKL; not profiled on two threads (on one thread our kernels take about half of "
    "SciPy's time, docs/fft.md)"
)
_DISPATCH = "a few microseconds are JAX's dispatch, which torch's and NumPy's calls do not have"

REASONS: Final[dict[str, str]] = {
    "eigh_300": "nearly all of the time is LAPACK's syevd; the best rival calls oneMKL's",
    "fft_1024": _MKL,
    "fft_prime_1009": _MKL,
    "fftn_200": _MKL,
    "image_warp": "one kernel with four gathers; which part of it takes the time was not measured",
    "orbits_gradient": "its loops run kernel by kernel, with each value of up to 27 numbers in memory: "
    "that is more numbers than loops keep in registers",
    "product_f32_64": _DISPATCH,
    "product_s8_256": f"{_DISPATCH}; that is a third of the difference, the rest was not profiled",
    "rfft2_256": _MKL,
    "rfft2_360": _MKL,
    "triangular_solve_1000_1": "the matrix is read once: part of the difference is JAX's dispatch, the rest was not "
    "profiled",
}
