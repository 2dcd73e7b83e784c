"""Several trainings in one runner that train each unit together."""
