"""Trainers for torch and Keras, and the saving of objects that a function names.

The trainers own data order, generators and checkpoints, so that resuming is bit-identical.

Rule: only this package, ``packing`` and ``ablation`` import torch, tensorflow or keras, each of their modules only one.
"""
