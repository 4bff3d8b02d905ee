"""Seeing: from a photo to the pixels that an encoder takes, risky formats in a process of their own."""
