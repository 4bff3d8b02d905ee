"""What a run is set up with: its settings, its processes, and the order of its batches."""
