"""Compilation targets: one folder each. A target turns an LLVM module into a code image."""
