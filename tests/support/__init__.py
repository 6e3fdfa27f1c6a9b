"""What tests stand on: a real Postgres, a clock that is moved by hand."""
