"""Stores on HDFS through hdfs-native, so without a Java runtime in the driver or the workers."""
