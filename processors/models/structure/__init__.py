"""Structural models: the run time as an equation of what the hosts give at the moment, evaluated with histograms.

Source: Schopf, "Structural prediction models for high-performance distributed applications" (1997); Schopf, Berman (2001).
An equation is text that a user of the machine can write, a name for each part where that helps:

    compute  = elements * seconds_per_element / cpu_available
    exchange = latency_s + message_mbit / bandwidth
    T = iterations * (max_over(hosts, compute) + max_over(hosts, exchange))

`parse` (a Model, or the place of the error) -> `build` (`form`: like terms collected) -> `calculus`
(histograms where parts are independent) or `draws` (Monte Carlo where they are not) -> `evaluate`.
"""
