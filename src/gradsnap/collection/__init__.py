"""Photo collections: what is known of files, and an index kept in step with them."""
