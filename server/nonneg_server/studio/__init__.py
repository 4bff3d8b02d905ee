"""The studio: a folder's photos looked at through their dimensions; what the page and /studio/… answer from.

studio_state    what the routes ask: the model, the folder that was indexed, and photos dropped on the page
folder          the photos that were indexed: names and ids, vectors by row and by column, and their groups
folder_search   what is searched for, and its answer: hits with reasons, their line, what shortening costs, facets
folder_answers  a photo's dimensions, two photos side by side, and one dimension
library         the user's tags, albums, names of dimensions and searches, in the data folder
library_answers conditions on photos, marks, completions; selection_export: what other programs read
pictures        photos by id, their smaller copies, and photos that were dropped on the page
browser_access  the page's own files and their policy, and which names a browser may call this server by
page            the page
"""
