"""What is measured before a bundle is written: checks that must hold, and what the encoder is worth."""
