"""Run times at sizes not seen yet, from seven simple laws and how well each has forecast so far.

No single law fits all applications. Each law therefore forecasts every observed size from the smaller ones, as it would
have done when that size was new; its losses decide what it weighs now (Dawid, "Statistical theory: the prequential
approach", 1984). Losses on other inputs and systems of the application count too, and a few offsets per application are
learned on the way. Everything is a function of the observed sizes, never of the order in which runs came.

`curve` -> `evidence` (all laws on all prefixes) -> `gate` (weights) -> `replay` (offsets, scores) -> `bands` -> `combine`.
"""
