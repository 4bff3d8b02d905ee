"""What dimensions are called and which words a model knows: from a classifier's classes, photos and WordNet."""
