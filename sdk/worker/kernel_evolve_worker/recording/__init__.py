"""Records what a candidate asks the device to do, without a device."""
