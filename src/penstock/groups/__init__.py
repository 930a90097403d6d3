"""Groups: assignors and other pure machines that share partitions among members. No I/O, no clock, no protocol."""
