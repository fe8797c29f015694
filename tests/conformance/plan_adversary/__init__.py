"""Random programs and worlds, and judges that were written from the documents alone."""
