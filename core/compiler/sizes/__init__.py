"""Sizes that depend on values: a wing of the compiler (:mod:`..wings`).

:mod:`.bounded_shapes` reads programs that have such sizes, :mod:`.ops` registers the instructions that stand for them,
:mod:`.resolve` is the pass that makes every size a scalar beside its array, with the rule of each op in :mod:`.table`.
Behind that pass every shape is static. What remains of the sizes is data of the module and of the artifact:
``Module.dynamic_results`` and ``size_checks``.
"""
