"""What the sources report, to be shown beside what comes out here."""

# Garst and Reinders: mean adjusted Rand index of 200 runs, averaged over the clients, by
# (beta, noise); 50 points per cluster.  The central method does not depend on beta.
_BETAS = (0.1, 1.0, 10.0)
ARI = {
    "central": {(beta, noise): value for beta in _BETAS
                for noise, value in ((1.0, 0.955), (1.5, 0.725))},
    "fkm": {
        (0.1, 1.0): 0.949, (0.1, 1.5): 0.697, (1.0, 1.0): 0.958, (1.0, 1.5): 0.707,
        (10.0, 1.0): 0.957, (10.0, 1.5): 0.709,
    },
    "kfed": {
        (0.1, 1.0): 0.690, (0.1, 1.5): 0.432, (1.0, 1.0): 0.729, (1.0, 1.5): 0.520,
        (10.0, 1.0): 0.852, (10.0, 1.5): 0.607,
    },
}
# The same for the extreme split, noise 1: mean and deviation.
EXTREME_ARI = {"fkm": (0.902, 0.053)}

# The child/parent document: sums of squared errors on its own data, eight studies, K = 3.
CHILD_PARENT_SSE = 1498.2800508864195
CENTRAL_SSE = 1362.1960103577223
