"""The log on kafka-python, which every install has."""
