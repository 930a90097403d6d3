"""The coordinators of groups, classic and newer (KIP-848): state tables over plain data, the time passed in."""
