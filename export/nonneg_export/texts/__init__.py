"""Text towers beside image towers: put there, ordered like the image columns, and measured."""
