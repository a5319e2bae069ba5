"""ADEPT (Deshmeh, Machina, Sodan): patterns, predictions and verdicts for one run-time curve with Downey's model."""
