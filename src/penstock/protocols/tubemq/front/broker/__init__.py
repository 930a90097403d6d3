"""The broker's side: who has booked which partition, where each group is, reading and writing the log."""
