"""Two shapes of a schema for churn, compared with bare statements before one was chosen (ADR 8)."""
