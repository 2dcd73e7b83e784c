"""Trainers that own data order, generators and checkpoints, so that resuming is bit-identical: for torch and for Keras.

Rule: nothing outside of this package imports torch, tensorflow or keras, and each of its modules imports only one.
"""
