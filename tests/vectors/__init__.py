"""Vectors: journals as bytes, with the answer that every reader must give."""
