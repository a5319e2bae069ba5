"""Power, energy and counters: profiles of jobs, and models that predict power and run time from size and counters."""
