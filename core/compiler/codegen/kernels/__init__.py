"""The kernels: one module for each kind, and the parts that several of them share."""
