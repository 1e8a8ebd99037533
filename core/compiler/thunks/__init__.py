"""Thunks: what the runtime runs, one after another, and the functions that they want."""
