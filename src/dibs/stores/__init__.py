"""One room for each database that jobs can live in; none of them knows another."""
