"""What every package shares: errors, shortening, pixels and the view, image files, and the maths of evaluation."""
