"""What people see and type: the Streamlit pages and the `blindspot` command."""
