"""For programs that use predictions: a local table of them, kept fresh by `scalewatch subscribe`, and how to ask it."""
