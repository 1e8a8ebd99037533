"""Special functions: a wing of the compiler (:mod:`..wings`).

:mod:`.ops` registers them, :mod:`.functions` names their series (``codegen/vector_math``). Without this wing
CHLO's and JAX's expansions compute them, in several kernels and less exactly.
"""
