"""The embedding server: request -> decode -> preprocess -> encode -> shorten -> respond."""
