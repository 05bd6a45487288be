"""Text to token ids and back: one implementation, which every policy shares."""
