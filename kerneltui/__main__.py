"""`python -m kerneltui` is the `kerneltui` command."""

from kerneltui.cli import main

if __name__ == "__main__":
    main()
