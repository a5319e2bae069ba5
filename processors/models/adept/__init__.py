"""ADEPT (Deshmeh, Machina, Sodan): the study of one curve with Downey's model."""
