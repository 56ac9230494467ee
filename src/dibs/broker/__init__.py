"""Brokers take intentions and see that they are decided and carried out: here over a store, elsewhere over HTTP."""
