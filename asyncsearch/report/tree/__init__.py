"""The stage tree as a picture and as text."""
