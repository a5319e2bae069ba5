"""What a release consists of: wheel, packages of Debian and of Red Hat, image, chart, and the list of what is in them."""
