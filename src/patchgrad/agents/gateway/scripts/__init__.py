"""Files that are run by the Python of a program of others."""
