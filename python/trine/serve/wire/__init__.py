"""One file per wire: each reads a body into a Job, and writes what comes back as its client expects it."""
