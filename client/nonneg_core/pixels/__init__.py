"""From a file's bytes to what an encoder sees: decoded, upright, sRGB, in the evaluation view."""
