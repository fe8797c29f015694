"""What serves. `core` and the engines are pure; all other rooms touch the outside world."""

#: Its name on the index, where `waggle` is somebody else's.
DISTRIBUTION = "waggle-scheduler"
