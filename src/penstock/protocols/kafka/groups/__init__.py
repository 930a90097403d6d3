"""The group coordinators, classic and KIP-848: state tables over plain data, with the time passed in."""
