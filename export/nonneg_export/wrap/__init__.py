"""Models that others publish, made to look like ours: uint8 pixels in, one row of features an image out."""
