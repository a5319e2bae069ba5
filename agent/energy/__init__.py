"""What runs used in energy and emitted in carbon by job, application, user, account and day, and how much of it was measured."""
