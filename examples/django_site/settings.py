"""The settings of the site. What there is of dibs is in TASKS and INSTALLED_APPS."""

import django

SECRET_KEY = "an example has no secrets"
ALLOWED_HOSTS = ["localhost", "testserver"]
ROOT_URLCONF = "shop.views"
USE_TZ = True

INSTALLED_APPS = [
    "shop",
    "dibs.contrib.django",  # adds manage.py dibs_worker
    *([] if django.VERSION >= (6, 0) else ["django_tasks"]),
]

TASKS = {
    "default": {
        "BACKEND": "dibs.contrib.django.DibsBackend",
        "QUEUES": ["default", "mail"],
        # No "store": what DIBS_STORE says, else sqlite:///dibs.db. With PostgreSQL, "database": "default" has the jobs
        # in Django's own database, so that they are enqueued within its transactions.
        "OPTIONS": {"max_attempts": 5, "timeout": 600},
    },
}
