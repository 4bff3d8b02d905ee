"""What an operator sees: metrics, drift, logs and traces."""
