# Debian 12 with the project and its locked packages; docs/install.md, "In a container", says how to
# run it.
FROM debian:12-slim

RUN apt-get update \
    && apt-get install -y --no-install-recommends python3 python3-venv \
    && rm -rf /var/lib/apt/lists/*

WORKDIR /opt/federated_clustering
COPY requirements.txt .
RUN python3 -m venv env \
    && env/bin/pip install --no-cache-dir --no-deps --require-hashes -r requirements.txt

COPY . .
RUN useradd --uid 10001 clustering && mkdir results && chown clustering results
USER 10001
# What is cached or temporary is in the only folder that is sure to be writable.
ENV HOME=/tmp PYTHONDONTWRITEBYTECODE=1
ENTRYPOINT ["env/bin/python"]
CMD ["-m", "experiments.three_phase_emnist", "--dataset=digits"]
