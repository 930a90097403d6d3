"""RocketMQ: frames, commands, messages and records. See ``README.md`` beside this file for what is spoken."""
