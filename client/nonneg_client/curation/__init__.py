"""A folder put in order: duplicates, clusters, outliers, subsets, doubtful labels; nothing on disk is touched.

collection    vectors and where their photos are
photos        bytes and pixels: from the index, or read
comparing     all pairs and neighbours, kept in the cache block by block
duplicates, overview, labelled    the parts
findings      what they find, as JSON and CSV
page          the contact sheet
"""
