"""What stores on servers share: rows, names, judgements, waiting, hints, connections. None of it knows a statement."""
