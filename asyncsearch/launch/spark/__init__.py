"""Workers as Spark tasks. Only the modules of this package import pyspark, and only inside functions."""
