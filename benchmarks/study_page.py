"""x."""


def write_page(rows): ...
