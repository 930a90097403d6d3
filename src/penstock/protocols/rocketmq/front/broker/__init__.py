"""What a broker does: messages in and out, groups, offsets."""
