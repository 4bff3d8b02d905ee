"""Where images come from: files, folders, globs, tars, links, memory."""
