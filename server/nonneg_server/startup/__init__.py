"""Starting the server: settings -> models -> application -> process."""
