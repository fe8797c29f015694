"""What a recording shows beyond "every decision is the same": one moment of it, and its events one by one."""
