"""`python -m tractile`, the same as the command `tractile`."""

from .cli import app

if __name__ == "__main__":
    app()
