"""Several workers that train one network of PyTorch: strategies, process groups and shards."""
