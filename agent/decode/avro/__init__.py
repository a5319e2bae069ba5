"""Messages in Confluent's wire format: Avro whose schema a registry holds, or a file."""
