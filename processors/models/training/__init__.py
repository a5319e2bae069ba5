"""What models of profiles are trained on, and how their answers are followed.

`runs` (a bounded reservoir of runs, which all models of an application share), `table` (its runs as columns for one
target), `tracking` (each answer against what came: error, level, band; and which of several models to believe).

`kind` (how a model is fitted in steps that can be taken up again), `learner` (the models of one target), `trainer` (all
learners of an application).

Models are functions of the reservoir and of what their fits found: a few numbers, such as which of several choices was
the best. Only these are stored; a model is made of them when it is first asked. So that a restored agent answers as the one
before did, the reservoir keeps new runs apart until it is told to advance, and everybody fits to the others.
"""
