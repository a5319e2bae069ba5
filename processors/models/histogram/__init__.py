"""Stochastic values: a measured resource as a histogram of a few intervals, and arithmetic with such histograms.

Source: Schopf, Berman, "Using stochastic information to predict application behavior on contended resources" (2001), and
Schopf's "Performance prediction and scheduling for parallel applications on multi-user clusters" (PhD, 1998). A load that
changes has no one value: the last five minutes of samples, in five equal intervals, say how likely each part of its range
is, and a run time computed from them is a histogram again.

Every array may have leading axes (hosts): each function works on one histogram and on a histogram per host alike.

`values` defines and builds histograms, `arithmetic` combines, pools and scores them.
"""
