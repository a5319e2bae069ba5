"""Run times at sizes not seen yet, from nine simple laws, from curves of the same application that are known further out, and from how well each has forecast so far.

No single law fits all applications. Each law therefore forecasts every observed size from the smaller ones, as it would
have done when that size was new; its losses decide what it weighs now (Dawid, "Statistical theory: the prequential
approach", 1984). Losses on other inputs and systems of the application count too, and a few offsets per application are
learned on the way. Everything is a function of the observed sizes, never of the order in which runs came.

`evidence` (all laws on all prefixes, and what each weighs) -> `related` (what the curves of an application report to each
other) and `shapes` (what those known further out did there) -> `replay` (every forecast in hindsight: offsets, records of
shapes) -> `scores` (how far runs were off: bands) -> `combine` (the forecast); `inside` answers between the sizes.
"""
