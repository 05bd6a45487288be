"""What a finished or interrupted run did: audit, replay, continuations from one of its turns."""
