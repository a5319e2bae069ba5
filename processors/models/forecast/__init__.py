"""Forecasts of the next value of many series at once, after the Network Weather Service.

Source: Wolski, "Dynamically forecasting network performance using the Network Weather Service" (1998); Wolski, Spring,
Hayes, "The Network Weather Service" (1999). Thirty simple predictors run side by side, and at each moment the one whose
errors were least until then answers. The Network Weather Service adds up errors; here old ones fade, so that a series
that changes its ways gets another predictor soon.

A series is a row of one array. What a row becomes depends on its own values alone, to the bit, not on the rows beside it.

`layout` (what a row holds) -> `windows`, `adaptive`, `autoregression` (predictors) -> `battery` (all of them, and choice).
"""
