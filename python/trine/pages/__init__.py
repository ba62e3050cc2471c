"""Every page of Trine: one shell, one style, one chart wrapper, one timeline. See README.md."""
