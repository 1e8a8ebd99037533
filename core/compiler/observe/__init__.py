"""Looking at a compilation: dumps, their description, and passes that are checked on data."""
