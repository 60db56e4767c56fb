"""Pages, charts and pictures of what was measured; what they say is the caller's."""
