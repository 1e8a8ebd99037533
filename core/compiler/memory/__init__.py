"""Memory: when values live, which of them share memory, and where each lies."""
