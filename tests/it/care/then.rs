//! What `as_of` shows: the hierarchy of that time.
