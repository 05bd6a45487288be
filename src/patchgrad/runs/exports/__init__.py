"""What a run leaves for others: attempts as messages, ATIF, inspect_ai's logs and SWE-bench's predictions, and the card of its policy."""
