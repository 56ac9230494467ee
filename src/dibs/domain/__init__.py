"""Pure: what a job is and what can become of it. No input or output, no clock, no database."""
