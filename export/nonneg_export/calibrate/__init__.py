"""Calibration: photos through an encoder, and what their activations say of each column."""
