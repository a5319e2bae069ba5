"""The documentation as a site: pages of the whole repository, and a reference that is made from the code."""
