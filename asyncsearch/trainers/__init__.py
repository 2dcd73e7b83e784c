"""Trainers for torch and Keras that own data order, generators and checkpoints, so that resuming is bit-identical.

Rule: only this package imports torch, tensorflow or keras, and each of its modules imports only one of them.
"""
