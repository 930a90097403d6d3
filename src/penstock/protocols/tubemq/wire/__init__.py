"""What is spoken: messages, frames, strings, and records in messages."""
