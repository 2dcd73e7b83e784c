"""Trainers for torch and Keras, and the saving of objects that a function names.

The trainers own data order, generators and checkpoints, so that resuming is bit-identical.

Rule: only this package imports torch, tensorflow or keras, and each of its modules imports only one of them.
"""
