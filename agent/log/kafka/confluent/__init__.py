"""The log on confluent-kafka, a library that the extra `scalewatch[fast]` installs."""
