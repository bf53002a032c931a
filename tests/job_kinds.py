"""Every kind of job that the backend registers."""

import importlib
import pkgutil

from blindspot import backend
from blindspot.backend.core import jobs


def every_kind() -> dict[str, jobs.JobKind]:
    """Return the kinds of jobs by name. Imports every module of the backend, because jobs register where they are
    defined.
    """
    for module in pkgutil.walk_packages(backend.__path__, "blindspot.backend."):
        importlib.import_module(module.name)
    return {
        name: kind for name, kind in jobs.kinds().items() if kind.function.__module__.startswith("blindspot.backend.")
    }
