"""What people read of a bundle, and how it travels: reports, model cards, hubs, stores, Triton."""
