"""Tests: the folders mirror the repository; integration/ compares JAX on xpu with JAX on its own CPU backend."""
