"""The finished thing: a network and a coder that embed, encode and search."""
