"""Stores on HDFS over HTTP, where only its gateway can be reached. ``hdfs://`` promises more."""
