"""The studio: a folder's photos looked at through their dimensions; what the page and /studio/… answer from.

studio_state    what the routes ask: the model, the folder that was indexed, and photos dropped on the page
indexed_folder  the folder: names and ids, vectors by row and by column, and its groups
photo_query     what is searched for, as weights and conditions
folder_search   hits with reasons, their line, what shortening costs, and the dimensions of a result
folder_answers  a photo's dimensions, two photos side by side, and one dimension
pictures        photos by id, their smaller copies, and photos that were dropped on the page
browser_access  the page's own files and their policy, and which names a browser may call this server by
page            the page
"""
