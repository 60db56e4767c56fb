"""Past one machine: sources in shards, Lance tables of codes, workers on Ray.

Nothing here is imported by a plain command; Ray and Lance are extras, asked for by name
where they are needed.
"""
