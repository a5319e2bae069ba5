"""The laws of run time against size that are combined: each file is a law, or laws that are fitted together.

All are least squares of relative errors with terms that are not negative. Which law is right differs between
applications and even along one curve; the combination says which to trust.
"""
