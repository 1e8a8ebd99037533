"""The reference interpreter of HLO, and how far rounding may move its results."""
