"""Objectives: what a trained token's log-probability costs. The trainer weighs the costs and divides by the batch's count.

Beside them, in numpy alone, `corrections.py`: what a token weighs where the policy that sampled is not the trainer's.
"""
