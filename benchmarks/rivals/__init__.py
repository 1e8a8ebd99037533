"""The programs of this project's users, on what they run today: every rival in a process and an environment
of its own.
"""
