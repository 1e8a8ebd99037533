"""Whether a program can reach memory that is not its own: what is compiled is run beside other arrays, in processes
that are set up as a user's is (no pytest, no TRIPONT_VERIFY).
"""
