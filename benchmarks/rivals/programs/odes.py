"""Differential equations: many small systems at once, and on grids by Fourier transforms and by differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..program import Registry

PROGRAMS = Registry("differential equations", __name__)
SYSTEMS, STEPS, LORENZ_STEP = 4096, 200, 0.002
GRID, GRID_STEPS = 256, 10
SIDE, SIDE_STEPS = 1024, 10


def runge_kutta(rate: Callable[[Any], Any], h: float) -> Callable[[Any], Any]:
    """A step of ``h`` of the classical Runge-Kutta method for state' = rate(state)."""

    def step(state: Any) -> Any:
        k1 = rate(state)
        k2 = rate(state + h / 2 * k1)
        k3 = rate(state + h / 2 * k2)
        k4 = rate(state + h * k3)
        return state + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)

    return step


def repeated(step: Callable[[Any], Any], count: int) -> Callable[[Any], Any]:
    """So many steps one after the other, for NumPy and PyTorch."""

    def solve(state: Any) -> Any:
        for _ in range(count):
            state = step(state)
        return state

    return solve


def lorenz_jax() -> Callable[..., Any]:
    import jax
    import jax.numpy as jnp

    def rate(state: Any) -> Any:
        x, y, z = state
        return jnp.stack([10.0 * (y - x), x * (28.0 - z) - y, x * y - (8.0 / 3.0) * z])

    step = runge_kutta(rate, LORENZ_STEP)

    def solve(state: Any) -> Any:
        return jax.lax.fori_loop(0, STEPS, lambda _, s: step(s), state)

    return jax.vmap(solve)


def lorenz_rows(stack: Callable[..., Any]) -> Callable[..., Any]:
    """The same for NumPy and PyTorch, on all systems at once."""

    def rate(state: Any) -> Any:
        x, y, z = state[:, 0], state[:, 1], state[:, 2]
        return stack([10.0 * (y - x), x * (28.0 - z) - y, x * y - (8.0 / 3.0) * z])

    return repeated(runge_kutta(rate, LORENZ_STEP), STEPS)


def lorenz_torch() -> Callable[..., Any]:
    import torch

    return lorenz_rows(lambda parts: torch.stack(parts, -1))


PROGRAMS.add(
    "ode_vmapped",
    f"{SYSTEMS:,} Lorenz systems, {STEPS} Runge-Kutta steps, vmap of fori_loop",
    lambda r: (r.normal(size=(SYSTEMS, 3)).astype(np.float32) + np.float32([0, 0, 25]),),
    jax=lorenz_jax,
    numpy=lambda: lorenz_rows(lambda parts: np.stack(parts, -1)),
    torch=lorenz_torch,
    bytes=2 * SYSTEMS * 12,
    flops=SYSTEMS * STEPS * 75.0,
    terms=STEPS,
)


def spectral_jax() -> Callable[..., Any]:
    import jax
    import jax.numpy as jnp

    waves = np.fft.fftfreq(GRID, 1 / GRID).astype(np.float32)
    kx, ky = waves[:, None], waves[None, : GRID // 2 + 1]
    k2 = kx**2 + ky**2
    inverse = np.where(k2 == 0, 0, -1 / np.where(k2 == 0, 1, k2)).astype(np.float32)

    def step(_: Any, vorticity: Any, h: float = 1e-3, viscosity: float = 1e-3) -> Any:
        spectrum = jnp.fft.rfft2(vorticity)
        stream = spectrum * inverse
        u = jnp.fft.irfft2(-1j * ky * stream)
        v = jnp.fft.irfft2(1j * kx * stream)
        dx = jnp.fft.irfft2(1j * kx * spectrum)
        dy = jnp.fft.irfft2(1j * ky * spectrum)
        advected = jnp.fft.rfft2(u * dx + v * dy)
        return jnp.fft.irfft2((spectrum - h * advected) / (1 + h * viscosity * k2))

    return lambda vorticity: jax.lax.fori_loop(0, GRID_STEPS, step, vorticity)


def spectral(fft: Any, where: Callable[[np.ndarray], Any]) -> Callable[..., Any]:
    """The same with another library's transforms."""
    waves = np.fft.fftfreq(GRID, 1 / GRID).astype(np.float32)
    kx, ky = waves[:, None], np.abs(waves[None, : GRID // 2 + 1])
    k2 = kx**2 + ky**2
    inverse = where(np.where(k2 == 0, 0, -1 / np.where(k2 == 0, 1, k2)).astype(np.float32))
    ikx, iky = where((1j * kx).astype(np.complex64)), where((1j * ky).astype(np.complex64))
    damped = where((1 + 1e-6 * k2).astype(np.float32))

    def solve(vorticity: Any) -> Any:
        for _ in range(GRID_STEPS):
            spectrum = fft.rfft2(vorticity)
            stream = spectrum * inverse
            u, v = fft.irfft2(-iky * stream), fft.irfft2(ikx * stream)
            dx, dy = fft.irfft2(ikx * spectrum), fft.irfft2(iky * spectrum)
            advected = fft.rfft2(u * dx + v * dy)
            vorticity = fft.irfft2((spectrum - 1e-3 * advected) / damped)
        return vorticity

    return solve


def spectral_scipy() -> Callable[..., Any]:
    import os

    import scipy.fft

    solve = spectral(scipy.fft, lambda a: a)

    def run(vorticity: np.ndarray) -> np.ndarray:
        with scipy.fft.set_workers(int(os.environ["OMP_NUM_THREADS"])):
            return solve(vorticity)

    return run


def spectral_torch() -> Callable[..., Any]:
    import torch

    return spectral(torch.fft, torch.from_numpy)


PROGRAMS.add(
    "spectral_pde_256",
    f"vorticity on {GRID}x{GRID}, {GRID_STEPS} steps of 6 real transforms",
    lambda r: (r.normal(size=(GRID, GRID)).astype(np.float32),),
    jax=spectral_jax,
    numpy=spectral_scipy,
    torch=spectral_torch,
    flops=GRID_STEPS * 6 * 2.5 * GRID**2 * 16,
    terms=GRID_STEPS * 16,
)


def diffusion(roll: Callable[[Any, int, int], Any]) -> Callable[[Any], Any]:
    """A Runge-Kutta step of Fisher's equation, u' = 0.2 (differences of neighbours) + u (1 - u), on a periodic grid."""

    def rate(u: Any) -> Any:
        around = roll(u, 1, 0) + roll(u, -1, 0) + roll(u, 1, 1) + roll(u, -1, 1)
        return 0.2 * (around - 4.0 * u) + u * (1.0 - u)

    return runge_kutta(rate, 0.1)


def diffusion_jax() -> Callable[..., Any]:
    import jax
    import jax.numpy as jnp

    step = diffusion(jnp.roll)
    return lambda u: jax.lax.fori_loop(0, SIDE_STEPS, lambda _, u: step(u), u)


def diffusion_torch() -> Callable[..., Any]:
    import torch

    return repeated(diffusion(torch.roll), SIDE_STEPS)


PROGRAMS.add(
    "reaction_diffusion_1024",
    f"reaction and diffusion on {SIDE}x{SIDE} by differences, {SIDE_STEPS} Runge-Kutta steps",
    lambda r: (r.uniform(size=(SIDE, SIDE)).astype(np.float32),),
    jax=diffusion_jax,
    numpy=lambda: repeated(diffusion(np.roll), SIDE_STEPS),
    torch=diffusion_torch,
    bytes=8.0 * SIDE**2,
    flops=SIDE_STEPS * 4 * 12.0 * SIDE**2,
    terms=SIDE_STEPS * 4 * 7,
)
