"""Compiled functions in MirroredStrategy's replicas on XPU.

``strategy.run(step)``, where ``step`` has ``jit_compile=True``, makes TensorFlow compile one program for each device
and do the reductions in it as collectives, but only if every device's type is spelled ``GPU``; with any other it
compiles all replicas as one function of one device, which is refused as soon as there is a variable. What decides are
two private functions of TensorFlow's Python (``distribute/mirrored_run.py`` and ``mirrored_strategy.py``).
"""

from __future__ import annotations

from typing import Any

_NAME = "_is_gpu_device"


def compile_replicas() -> None:
    """Let ``tf.distribute.MirroredStrategy`` compile each replica's function on XPU, as it does on GPUs.

    From then on ``strategy.run(step)`` with ``step = tf.function(..., jit_compile=True)`` is one program on each XPU of
    the strategy, with ``all_reduce`` inside. It changes TensorFlow for this process, by replacing two of its private
    functions; nothing calls it unasked. A second call does nothing.

    Raises:
        RuntimeError: TensorFlow has no XPU (:func:`check`), or is not one that has these functions.
    """
    from tensorflow.python.distribute import mirrored_run, mirrored_strategy
    from tripont.frontends.tensorflow import check

    check()
    for module in (mirrored_run, mirrored_strategy):
        if not hasattr(module, _NAME):
            raise RuntimeError(
                f"this TensorFlow has no {module.__name__}.{_NAME}: replicas cannot be compiled on XPU"
            )
    for module in (mirrored_run, mirrored_strategy):
        setattr(module, _NAME, _compiles_replicas)


def _compiles_replicas(device: Any) -> bool:
    """Whether each replica on such a device is compiled by itself."""
    import tensorflow as tf
    from tripont.frontends.tensorflow import DEVICE_TYPE

    return tf.DeviceSpec.from_string(device).device_type in ("GPU", DEVICE_TYPE)
