"""The log on kafka-python, a library that is part of every installation."""
