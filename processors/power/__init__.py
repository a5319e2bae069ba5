"""Power, energy and counters: profiles of jobs, and models of them by size."""
