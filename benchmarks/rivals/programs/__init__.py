"""The programs, a file for each kind: see benchmarks/rivals/program.py."""
