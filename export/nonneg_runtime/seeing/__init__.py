"""Seeing: from a photo to the pixels that an encoder takes."""
