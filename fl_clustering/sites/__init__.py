"""Rows that stay at their sites: an operator learns sums over all sites, and nothing else."""
