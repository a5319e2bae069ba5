"""Structural models: the run time as an equation over the current resources of the hosts, evaluated with histograms.

Source: Schopf, "Structural prediction models for high-performance distributed applications" (1997); Schopf, Berman (2001). An
equation is text that users can write, optionally with named parts:

    compute  = elements * seconds_per_element / cpu_available
    exchange = latency_s + message_mbit / bandwidth
    T = iterations * (max_over(hosts, compute) + max_over(hosts, exchange))

`parse` returns an `Equation`, or raises an error with its position in the text. `form` collects like terms. `evaluate` computes with
histograms if the parts of the equation are independent, and with Monte Carlo draws if they are not.
"""
