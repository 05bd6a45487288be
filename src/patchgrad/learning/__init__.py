"""Attempts become updates: selection, credit, provenance, packing, and the loop that does all of it."""
