"""What `blindspot open` serves: the pages of `app/main.py`, and the exchange of personal links for sessions.

BLINDSPOT_STUDY=STUDY streamlit run app/asgi.py --server.address localhost
"""

from __future__ import annotations

from starlette.middleware import Middleware
from streamlit.starlette import App

from app.links import PersonalLinks

app = App("main.py", middleware=[Middleware(PersonalLinks)])
