"""`trine baseline`: the one file that measures models on a GPU machine, joined from the modules of this folder."""
