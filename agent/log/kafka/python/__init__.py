"""The log on kafka-python, which every installation has."""
