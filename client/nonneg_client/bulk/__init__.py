"""Long runs that may be killed: many images into one file of vectors, or into a data set of shards, here or on a cluster.

addresses    where files lie: a folder, s3://bucket/folder, hf://datasets/...
overlap      sources that may name the same image are refused
listing      sources -> groups of neighbouring images, as they are found
containers   the same of tar and Parquet files
groups       a group: ids, and how the bytes of each image are read
layout       shard, side table and manifest: written and read
shard_job    a group -> a shard, unless it is there
ray_tasks    the same on the machines of a cluster, and worker_checks what these must have in common
on_ray       the cluster and what it is given to do
embedding    the whole run: lock, progress, manifest
"""
