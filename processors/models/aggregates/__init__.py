"""What is retained of many runs in bounded memory."""
