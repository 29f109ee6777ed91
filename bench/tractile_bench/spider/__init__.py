"""Text to SQL on Spider."""
