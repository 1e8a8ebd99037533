"""The command line `tripont`."""
