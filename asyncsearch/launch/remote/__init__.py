"""A driver that is itself a task of the cluster, for clusters that cannot reach the client: how its workers meet it."""
