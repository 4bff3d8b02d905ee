"""What a request brings: its body, images, links, vectors and parameters, checked at the boundary."""
