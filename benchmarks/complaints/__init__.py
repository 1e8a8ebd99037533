"""Programs that users complained about, and whole programs of the packages that they use.

Each names the issue thread where the complaint stands. The programs are written anew after the threads'
descriptions; ``python -m benchmarks.rivals`` runs them beside the others.
"""
