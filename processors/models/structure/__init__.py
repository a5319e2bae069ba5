"""Structural models: the run time as an equation of the current resources of the hosts, evaluated with histograms.

Source: Schopf, "Structural prediction models for high-performance distributed applications" (1997); Schopf, Berman (2001). An
equation is text that a user of the machine can write, with named parts if names help:

    compute  = elements * seconds_per_element / cpu_available
    exchange = latency_s + message_mbit / bandwidth
    T = iterations * (max_over(hosts, compute) + max_over(hosts, exchange))

`parse` (a Model, or the place of the error) -> `build` (`form`: like terms collected) -> `calculus` (histograms if parts are
independent) or `draws` (Monte Carlo if they are not) -> `evaluate`.
"""
