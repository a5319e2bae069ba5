"""The log on confluent-kafka, which `pip install scalewatch[fast]` adds."""
