"""What a user declares before any run of it exists, and where in it the running code stands."""
