"""Workers as Spark tasks. Only the modules in here import pyspark, and only when they are called."""
