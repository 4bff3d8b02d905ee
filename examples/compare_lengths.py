"""What do shorter vectors cost on your photos? `compare_lengths.py PHOTOS`, a folder with a subfolder for each label.

Embeds once, cuts the vectors, and tests each length against the full one on the same queries. Needs a server.
"""

import sys

from nonneg_client import Client, evaluate
from nonneg_vectors.evaluation.uncertainty import paired

with Client() as client:
    full = client.model().dimensions
    lengths = [full, *(length for length in (512, 256, 128, 64) if length < full)]
    rows = evaluate(sys.argv[1], through=client, lengths=lengths)

whole = rows[0].report.scores()["P@1"]
for row in rows:
    scores = row.report.scores()["P@1"]
    words = f"{row.length.dimensions:>5} dimensions, {row.mean_nnz:>4.0f} active: P@1 {scores.mean():.3f}"
    if row is not rows[0]:
        change = paired(whole, scores)
        words += f" ({change.mean:+.3f}, between {change.low:+.3f} and {change.high:+.3f}, p = {change.p:.3f})"
    print(words)
