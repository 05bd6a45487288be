"""A recipe becomes a run: its parts are built, its phases are done in order, and what it did can be looked into."""
