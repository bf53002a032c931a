"""What is concluded: arrays in, arrays or small tables out. No files, no SQL, no other room."""
