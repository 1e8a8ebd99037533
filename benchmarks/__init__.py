"""Benchmarks against JAX's own CPU backend: ``python -m benchmarks --help``."""
