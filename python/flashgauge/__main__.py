"""`python -m flashgauge`: the same as the `flashgauge` program."""

from flashgauge.cli import main

if __name__ == "__main__":
    main()
