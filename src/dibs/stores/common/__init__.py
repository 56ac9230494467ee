"""What the stores on SQL servers share: rows, names, judgements, waiting, connections. None of it knows a statement."""
