"""What a trained encoder is worth: structure with floors, probes and neighbours, of any encoder, signed ones too."""
