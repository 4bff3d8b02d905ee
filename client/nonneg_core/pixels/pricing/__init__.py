"""What an image will take, in processor time and memory, from one look at its header: a file a format."""
