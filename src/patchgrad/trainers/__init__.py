"""Trainers: who owns the weights and changes them, one optimiser step an update."""
