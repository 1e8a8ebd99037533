"""Bytes and values: the artifact, XLA's HLO proto, the attributes of custom calls. Formats decide nothing."""
