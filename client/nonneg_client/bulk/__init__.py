"""Long runs that may be killed: many images become one file of vectors, or a data set of shards, also on a cluster.

listing        sources -> groups of neighbouring images, as they are found
groups         a group: ids, and how the bytes of each image are read; tar and Parquet files
shard_job      a group -> a shard, unless it is there
data_set_run   the whole run: lock, progress, and a data set as its target, with a manifest
file_run       a file of vectors as its target: shards that become one file
on_ray         the cluster and what it is given to do; ray_tasks runs on its machines
"""
