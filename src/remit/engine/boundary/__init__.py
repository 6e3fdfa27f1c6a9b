"""The way to the outside: question, judgement, intention, the call itself, its settlement."""
