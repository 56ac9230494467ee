"""What Django is told of this package when it is among the installed apps."""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.db.models.signals import post_migrate


class DibsConfig(AppConfig):  # type: ignore[misc]  # Django has no types
    """Adds the command ``dibs_worker``, and has ``migrate`` make the tables of jobs that live in Django's database."""

    name = "dibs.contrib.django"
    label = "dibs"
    verbose_name = "dibs"

    def ready(self) -> None:
        """Hear of each database that has been migrated."""
        post_migrate.connect(_migrate, sender=self)


def _migrate(*, using: str, verbosity: int = 1, **_: Any) -> None:
    from dibs.contrib.django.backend import dibs_backends

    for backend in dibs_backends():
        if backend.database == using:
            for step in backend.app.sync.migrate():
                if verbosity:
                    print(f"  dibs: {step}")  # noqa: T201 - as migrate itself does
