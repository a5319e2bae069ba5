"""Power, energy and counters: profiles of jobs, and models of power and run time from size and counters."""
