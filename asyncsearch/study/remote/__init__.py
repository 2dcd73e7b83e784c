"""A run whose driver is a task of the cluster: the client sends it there, keeps it alive, and shows what it says."""
