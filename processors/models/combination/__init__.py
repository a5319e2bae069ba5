"""Run times at new sizes, from nine simple laws, from related curves with larger sizes, and from the earlier forecasts of both.

No single law fits all applications. Each law therefore forecasts every observed size from the smaller sizes, as at the time when
that size was new, and the losses of these forecasts decide the weight of the law (Dawid, "Statistical theory: the prequential
approach", 1984). Losses on other inputs and systems of the application count too, and a few offsets per application are learned as
well. The result is a function of the observed sizes, never of the order of the runs.

`evidence` (all laws on all prefixes, their weights, related curves) -> `shapes` (related curves at larger sizes) -> `replay` (all
forecasts in hindsight: offsets, losses of shapes, reasons) -> `scores` (scores of runs: bands) -> `combine` (the forecast);
`inside` predicts between the observed sizes.
"""
