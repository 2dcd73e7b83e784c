"""Several workers that train one model of Keras, and the ring that sums their gradients."""
