"""The process: its start, its cores and memory, its signals, and the cluster it may join."""
