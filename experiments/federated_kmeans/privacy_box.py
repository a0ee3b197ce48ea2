"""What leaves a client, in plain words, by algorithm and by whom the noise is added."""

from __future__ import annotations

from fl_clustering.points import privacy as privacy_lib

_MEANS = (
    "A mean of a few points is weak protection. Two rounds differ in a few points only, so the "
    "difference of two messages can be a row."
)

_KEPT = (
    "A mean of fewer points than min_count, or one that equals one of its rows, doesn't leave a "
    "client."
)

_TOTALS = (
    "counts and sums of points by cluster and by half of a cluster, the last sums to float "
    "precision in every column; by cluster, how much farther its points are from the second "
    "nearest center, and their simplified silhouettes; and before the first round, sums and sums "
    "of squares by column, and how many numbers of a column and how many points are of which "
    "order of magnitude."
)

# By the names of `--algorithm`.
LEAVES = {
    "sums": (
        f"The server gets totals over all clients: {_TOTALS} {privacy_lib.EXACT_TOTALS} "
        "Secure sums hide whose rows they are."
    ),
    "lloyd": (
        "The server gets exact sums, counts and the inertia. They hide a client only if they are "
        "added up in a secure sum, which this algorithm doesn't use."
    ),
    "fkm_lloyd": (
        "In its first rounds the server gets every client's own means and counts, for every "
        f"restart; in those of Lloyd, sums that aren't secure. {_MEANS} On standardised wine at "
        "up to eight clients, with eight clusters, between 39 and 61 of the 178 rows were such a "
        f"difference (three seeds). {_KEPT}"
    ),
    "fkm": f"In every round the server gets every client's own means and counts. {_MEANS} "
    f"{_KEPT}",
    "kfed": (
        "The server gets every client's own means and counts, once. A mean of a few points is weak "
        f"protection. {_KEPT}"
    ),
    "child_parent": (
        "The server gets every client's own means and counts, once per restart. A mean of a few "
        f"points is weak protection. {_KEPT}"
    ),
    "tff_minibatch": (
        "The server gets sums and counts of every client's points by cluster, which TFF adds up. "
        "They are exact, and this algorithm doesn't add them up in a secure sum."
    ),
}

TRUST = {
    privacy_lib.SERVER: (
        "The server adds the noise to totals over all clients, and is trusted not to look at them "
        "before. A secure sum must hide the single messages."
    ),
    privacy_lib.NONE: (
        "Every client adds a share of the noise to its own message, so the server sees noisy "
        "totals only. A secure sum must hide the single messages."
    ),
}

