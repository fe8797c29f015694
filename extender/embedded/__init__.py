"""A cluster on one machine, for `waggle demo`, for planning and for tests: stand-ins, never for production."""
