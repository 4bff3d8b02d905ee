"""How good retrieval is: labelled images, rankings, metrics, lengths, selections, and how sure one may be."""
