"""The fold: how the processors work together on one journal partition. Pure: events in, messages and state out."""
