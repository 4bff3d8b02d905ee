"""A backbone's features of a data set, computed once and kept."""
