"""Units of several trainers for Keras, trained as one computation where that is possible."""
