"""Imported once by the process that the servers of browser tests are forked from."""

from tests.browser.servers import import_the_app

import_the_app()
