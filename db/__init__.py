"""What is kept: SQLite behind small stores, and the records every room shares. Imports no other room."""
