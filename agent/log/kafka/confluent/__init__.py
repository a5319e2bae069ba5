"""The log on confluent-kafka, which the extra `scalewatch[fast]` installs."""
