"""Packed training of ``KerasTrainer``: alike members as stacked weights, others in turn on each batch.

Rule: this package imports TensorFlow and Keras, and no torch; ``asyncsearch.packing`` is torch's.
"""
