"""Queries that can be read: `photo.jpg + 2*dim:goldfish - "text" & "dog" !dim:17`, one grammar for every part.

expression    what a query says: sums of photos, words and dimensions, that must all be matched, and what must not be
parse         text -> expression, or an error with the place of the mistake
resolve       expression and the vectors of its photos and words -> weightings of dimensions and unwanted dimensions
names         a dimension by its name, or the names that are near to one that is not there
"""
