"""Avro messages in Confluent's wire format; schemas come from a registry or from files."""
