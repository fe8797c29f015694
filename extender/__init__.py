"""What serves. `core` and the engines are pure; all other rooms touch the outside world."""
