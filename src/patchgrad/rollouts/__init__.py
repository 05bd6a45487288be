"""A task becomes a graded attempt: the loop of turns, its sandbox, what is remembered, and many attempts at once."""
