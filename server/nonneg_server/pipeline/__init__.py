"""A request's way: from its images and parameters to vectors, and to the form the client accepts."""
