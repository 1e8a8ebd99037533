"""Tests that run in processes which behave as other CPUs (TRIPONT_CPU), with at most the instructions of this one.

``python -m tests.cpus`` (``make test-cpus``) runs all of them at every level that the machine has; the test suite runs
the short ones.
"""
