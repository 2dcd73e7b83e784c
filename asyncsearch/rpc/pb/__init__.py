"""Generated from ``rpc/search.proto`` by ``scripts/gen_proto.py``; do not edit."""
