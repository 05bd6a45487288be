"""Runs in a browser: a list of all attempts, and each attempt with its tokens. A server gives the page its data as it asks for them."""
