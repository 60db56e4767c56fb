"""The page."""
def page(found): return "x"
