"""The JAX frontend (see register.py)."""
