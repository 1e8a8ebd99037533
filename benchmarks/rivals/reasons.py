"""Why a program is slower than its best rival: what a profile of it showed. For the list on docs/performance.md."""

from typing import Final

_LAPACK = "measured before batches of small matrices were made in lanes: LAPACK was called for each, {calls}"
_SCATTER = "measured before scatters of elements computed their places and updates on the way, on several threads"
_FFT = "measured before transforms were generated kernels (docs/fft.md)"
_THREADS = (
    "measured before matrices of this order were kept from OpenBLAS's threads, which wait for each other while other "
    "processes have the cores"
)
_DISPATCH = "a few microseconds are JAX's dispatch, which torch's and NumPy's calls do not have"

_FEW = "measured before loops over a few numbers were one kernel, which takes a third of the time"

REASONS: Final[dict[str, str]] = {
    "attention_2048_causal_gradient": "measured before attention became one kernel: the scores went through memory",
    "bincount_256": _SCATTER,
    "cholesky_1000_gradient": "not profiled; in another run it was 1.5 times as fast as the best rival",
    "convolution_in_loop": "its 20 convolutions take 66 to 70 ms of CPU, 20 times what one takes alone: the load of "
    "the machine decided",
    "determinant_4_batch": _LAPACK.format(calls="nearly all of the time"),
    "eigh_300": f"nearly all of the time is LAPACK's syevd: {_THREADS}",
    "eigh_3_batch": _LAPACK.format(calls="nearly all of the time"),
    "embedding_gradient": "two thirds of the time fill the 30 MB of the result with zeros",
    "fft_1024": _FFT,
    "fft_1m": _FFT,
    "fft_prime_1009": _FFT,
    "fftn_100": _FFT,
    "fftn_200": _FFT,
    "histogram_100": "`jnp.histogram` finds each number's bin by bisection, torch computes the bin",
    "image_warp": "one kernel with four gathers; which part of it takes the time was not measured",
    "inventory_loop": "a chain of dependent operations, 7 ns a step on both; measured again beside jaxlib 0.10.2 and "
    "0.12: 1.11",
    "inverse_16_batch": _LAPACK.format(calls="most of the time"),
    "jax_md_fluid": "measured before components were taken out of arrays (docs/architecture.md) and remainders "
    "computed in vectors; measured again beside jaxlib 0.10.2 and 0.12: 3.56",
    "lu_solve_1500": f"the factorisation is LAPACK's getrf, now in tiles of ours: {_THREADS}",
    "ode_vmapped": "measured before such loops became one kernel; measured again beside jaxlib 0.10.2 and 0.12: 4.36",
    "product_f32_64": _DISPATCH,
    "product_s8_256": f"{_DISPATCH}; that is a third of the difference, the rest was not profiled",
    "qr_512": f"nearly all of the time is LAPACK's geqrf and orgqr: {_THREADS}",
    "qr_8_batch": _LAPACK.format(calls="geqrf two thirds and orgqr one third of the time"),
    "rfft2_256": _FFT,
    "rfft2_360": _FFT,
    "rfft_f64_1000": _FFT,
    "scan_3x3_f32": _FEW,
    "scan_3x3_f64": _FEW,
    "solve_8_batch": _LAPACK.format(calls="most of the time"),
    "sparse_by_vector": _SCATTER,
    "spectral_pde_256": "measured before transforms were generated kernels; a step takes 0.6 ms of CPU on one thread "
    "now; measured again beside jaxlib 0.10.2 and 0.12, under load: 0.84",
    "sum_first_axis": "by reading the kernel: a unit of work reads 512 bytes of every row, 64 KB apart, so that "
    "the hardware fetches nothing ahead",
    "svd_3_batch": _LAPACK.format(calls="nearly all of the time"),
    "while_update": "measured before sums of eight elements were taken of scalars; measured again beside jaxlib "
    "0.10.2 and 0.12: 1.15",
}
