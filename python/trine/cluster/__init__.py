"""A Slurm cluster of virtual Trainium nodes on one machine: the distribution's Slurm, every node a set of Linux namespaces.

slurm.py writes the configuration, host.py is the first process inside and starts everything, command.py is `trine cluster`.
Nothing of it lies outside the cluster's own namespaces and its folder, so taking it down leaves nothing behind.
"""
