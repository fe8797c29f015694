"""What people declare, in the configuration file or as objects, as the records that engines work with."""
