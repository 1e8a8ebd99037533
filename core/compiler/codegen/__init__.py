"""Code generation: fusions to LLVM IR, shared by all targets."""
