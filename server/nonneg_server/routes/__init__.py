"""Routes: each a few lines between a request and the function that answers it."""
