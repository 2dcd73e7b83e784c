"""The logs of all trials: one open file of a driver for all of them, with an index by trial."""
