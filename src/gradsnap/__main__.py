"""``python -m gradsnap``, which ``torchrun -m gradsnap`` starts too."""

from gradsnap.cli.app import main

if __name__ == "__main__":
    main()
