"""Run times of an input that was never run, or hardly, from the other inputs of its application.

Each input is a point in the space of its sizes (atoms, steps, cells). `curves` reads what was run of the others at the
wanted size in nodes, `regression` goes from there to the sizes of the input in question, and `forecast` puts it
together with what was run of the input itself.
"""
