"""The studio: a folder's photos looked at through their dimensions; what the page and /studio/… answer from.

column_index       vectors by row and by column: what is cut off, scores, counts
collection         an indexed folder: names, ids and vectors
dimension_cards    a dimension as every answer names it
query              what is searched for, as weights and conditions
search             hits with reasons, their line, what shortening costs
facets             the dimensions of a result, counted over the whole index
grouping           duplicates, clusters and outliers, and how far the search for them is
comparison         one photo's dimensions, and two photos side by side
dimension_details  one dimension: its strongest photos here, its company, its drift
thumbnails         thumbnails and photos, by id
uploads            photos that were dropped on the page, in memory
host_check         which names a browser may call this server by
page_files         the page's own files, and the policy they are served under
"""
