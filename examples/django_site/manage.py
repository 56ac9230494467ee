"""A site whose tasks run on dibs: its own commands, and those of Django.

python examples/django_site/manage.py dibs_worker
python examples/django_site/manage.py runserver
"""

import os
import sys

from django.core.management import execute_from_command_line

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "settings")
    execute_from_command_line(sys.argv)
