"""The studio's API: an indexed folder through its dimensions; the page at / stands on it, and so may programs."""
