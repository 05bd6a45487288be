"""Demonstrations by a scripted policy, from which a network that was made from scratch learns its first words."""
