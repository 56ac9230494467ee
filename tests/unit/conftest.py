"""Hypothesis judges what is true here, not how fast a busy machine is."""

from hypothesis import HealthCheck, settings

settings.register_profile("dibs", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("dibs")
