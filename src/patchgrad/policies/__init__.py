"""Policies: who answers a token stream. Import the one you name; each brings its own dependencies."""
