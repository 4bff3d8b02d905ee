"""KServe's v2 protocol, with the extensions that Triton's clients ask for."""
