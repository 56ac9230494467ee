"""Django's tasks on dibs: ``TASKS = {"default": {"BACKEND": "dibs.contrib.django.DibsBackend", …}}``.

Named in ``INSTALLED_APPS`` it adds the command ``manage.py dibs_worker``, which runs them.
"""

from dibs.contrib.django.backend import DibsBackend
from dibs.contrib.django.registry import job_options

__all__ = ["DibsBackend", "job_options"]
