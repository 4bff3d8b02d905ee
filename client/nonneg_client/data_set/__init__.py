"""Vectors of more images than one file holds: a folder of shards, here or in an object store, made by many processes.

addresses    where files lie: a folder, s3://bucket/folder, hf://datasets/...
listing      sources -> groups of neighbouring images, as they are found
groups       a group: ids, and how the bytes of each image are read
layout       shard, side table and manifest: written and read
shard_job    a group -> a shard, unless it is there
on_ray       the same on a cluster
embedding    the whole run: lock, progress, manifest
"""
