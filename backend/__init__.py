"""Everything that computes: studies, importing, retrieval, runs and jobs. Nothing in this package imports Streamlit."""
