"""Conformance of the PJRT C API: every function, called through the header's structs as a framework would."""
