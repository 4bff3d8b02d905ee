"""From a draft to a bundle: a run, an existing bundle or an encoder with a head, ranked, checked and sealed."""
