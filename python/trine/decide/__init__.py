"""Whether to move to Trainium: what a project depends on, what a GPU does today, and what each would cost."""
