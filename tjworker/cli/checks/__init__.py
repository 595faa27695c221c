"""What `tj doctor` looks at, one subject a file. Each reads only, and says what to do about what it finds."""
