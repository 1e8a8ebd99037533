"""Tests of the library calls."""
