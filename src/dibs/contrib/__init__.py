"""What joins dibs to frameworks; nothing else imports it."""
