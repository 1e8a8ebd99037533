"""Passes: functions Module -> Module with one job each. :mod:`..pipeline` says in which order they
run.
"""
