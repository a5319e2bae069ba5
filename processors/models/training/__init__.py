"""Training data, resumable fits and track records, shared by the models of profiles and of job features.

`runs` holds a bounded reservoir of runs for each application and decides which runs are retained. `table` turns the runs into
columns for one target and tracks the errors of each model. `trainer` fits the models in small steps.

A model is a function of the reservoir and of the state of its fit, which is a few numbers such as the best of several choices.
Only this state is stored; a model is rebuilt at its first use. A restored agent must give the same predictions as before. The
reservoir therefore keeps new runs apart until `advance`, and all models are fitted to the other runs.
"""
