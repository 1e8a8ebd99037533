"""``MultiWorkerMirroredStrategy`` with the variables and steps of each worker on its XPU.

TensorFlow chooses a worker's devices among GPUs and TPUs, and takes the CPU if it has none. This strategy takes the
XPU. Gradients are reduced by TensorFlow's own collectives between the workers' CPUs, over gRPC: on this device memory
is the host's, so what is reduced is not moved first.
"""

from __future__ import annotations

from typing import Any

from . import DEVICE_TYPE


def multi_worker_strategy(cluster_resolver: Any = None, communication_options: Any = None) -> Any:
    """A ``tf.distribute.MultiWorkerMirroredStrategy`` whose replicas are the workers' XPUs, one for each worker.

    Both arguments are that strategy's own; without a resolver, ``TF_CONFIG`` says who the workers are. RuntimeError if
    this process has no XPU, or more than one.
    """
    import tensorflow as tf
    from tensorflow.python.distribute import collective_all_reduce_strategy as strategies

    # Logical devices start TensorFlow's runtime, which the strategy must configure first.
    found = tf.config.get_visible_devices(DEVICE_TYPE)
    if len(found) != 1:
        raise RuntimeError(
            f"tripont: this worker has {len(found)} devices of type {DEVICE_TYPE}, and a worker of this strategy needs "
            "one (TRIPONT_NUM_DEVICES, tf.config.set_visible_devices; `tripont doctor` says why there is none)"
        )

    class OnXpu(strategies.CollectiveAllReduceExtended):
        def _initialize_local_devices(
            self, cluster_resolver: Any, worker_device: str
        ) -> tuple[tuple[str, ...], str]:
            return (f"{worker_device}/device:{DEVICE_TYPE}:0",), DEVICE_TYPE

        # The collectives have kernels for the CPU; those of the host's tensors are the same workers'.
        def _initialize_multi_worker(self, cluster_resolver: Any) -> None:
            super()._initialize_multi_worker(cluster_resolver)
            self._cross_device_ops = self._host_cross_device_ops

        def _initialize_local(self, cluster_resolver: Any, devices: Any = None) -> None:
            super()._initialize_local(cluster_resolver, devices)
            self._cross_device_ops = self._host_cross_device_ops

    class Strategy(tf.distribute.MultiWorkerMirroredStrategy):
        def __init__(self) -> None:
            options = communication_options or strategies.collective_util.Options()
            extended = OnXpu(self, cluster_resolver=cluster_resolver, communication_options=options)
            super(strategies.CollectiveAllReduceStrategy, self).__init__(extended)

        # Keras asks for the mean of the first batch, a structure, to learn the shapes and dtypes of a worker's part.
        # Those are the answer, and nothing is communicated: TensorFlow's reductions lack types that a batch may have,
        # and the parts of the workers may differ in size. Keras also reduces metrics along a first dimension that
        # they lack. TensorFlow takes single arrays that have the dimension.
        def reduce(self, reduce_op: Any, value: Any, axis: Any = None) -> Any:
            if axis is None and tf.nest.is_nested(value):
                return tf.nest.map_structure(self._local_spec, value)
            local, *_ = self.experimental_local_results(value)
            has_dimension = getattr(local, "shape", None) != ()
            return super().reduce(reduce_op, value, axis if has_dimension else None)

        def _local_spec(self, value: Any) -> Any:
            local, *_ = self.experimental_local_results(value)
            return tf.TensorSpec(local.shape, local.dtype)

    return Strategy()
