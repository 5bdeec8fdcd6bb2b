"""Every picture: nothing outside this room draws."""
