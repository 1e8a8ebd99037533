"""Everything that calls jaxlib's XLA: the SPMD partitioner, and the names of XLA's options."""
