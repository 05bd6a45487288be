"""Boards that other programs draw: TensorBoard, Weights & Biases, Trackio. Each is filled from a run's folder, and none touches the run."""
