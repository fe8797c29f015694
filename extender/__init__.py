"""What serves: everything that touches the outside world. The heart, `extender.core`, does not."""
