"""The models that are served, and what their dimensions mean."""
