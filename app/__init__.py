"""What people see and type: the Streamlit pages of the app, and the `blindspot` command."""
