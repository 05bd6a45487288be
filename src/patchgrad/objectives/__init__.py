"""Objectives: what a trained token's log-probability costs. Sums over tokens; the trainer divides by the batch's count."""
