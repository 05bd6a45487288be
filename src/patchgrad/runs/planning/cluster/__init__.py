"""What a recipe takes of many machines: memory of each GPU, seconds of an iteration, and every process that runs."""
