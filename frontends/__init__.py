"""What each framework needs to find the device: one folder a framework."""
