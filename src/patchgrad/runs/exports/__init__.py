"""Attempts of a run in the formats of others: as messages, ATIF, inspect_ai's logs, SWE-bench's predictions."""
