"""Search among stored vectors: an index, the engine in this process, hits, and forms that other engines take."""
