"""The stubs, generated from ``rpc/search.proto`` by ``scripts/gen_proto.py``; do not edit them."""

import warnings

with warnings.catch_warnings():
    # protobuf 6 warns of stubs for 5, with which it works: the next major version after theirs is promised to.
    warnings.filterwarnings("ignore", "Protobuf gencode version")
    from asyncsearch.rpc.pb import search_pb2 as search_pb2
