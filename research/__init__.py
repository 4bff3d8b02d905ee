"""What only maintainers run: the factory of the shipped models, the studies, and their results."""
