"""One file for each store that an `Index` can stand on; `engine.py` says what each of them must do."""
