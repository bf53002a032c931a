"""What computes: studies, importing, retrieval, runs, jobs. Knows no Streamlit."""
