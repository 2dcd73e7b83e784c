"""Stores that copy files to and from this machine."""
