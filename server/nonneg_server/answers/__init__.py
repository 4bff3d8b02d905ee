"""Answers: the vectors in the form the client asked for."""
