"""A storm: bad inputs, kills and races by the thousand, every one from its seed.

``make storm`` runs it. A *kind* is a sort of bad weather (``kinds.py``); a *try* is one
bad input, made from its seed alone. What may come of a try: it is refused in a
sentence, or answered. Anything else is a failure (``outcomes.py``), printed with the
command that repeats it.
"""
