"""Stores on HDFS, through hdfs-native: no Java runtime in the driver or the workers. See asyncsearch.store.hdfs.store."""
