"""What a run will take of a machine, before it takes it."""
