"""Scripts that tests start: drivers, and what makes files.

They are apart from the programs, because Python puts the folder of a script on the path: a program
that is called like a package, such as `keras`, would hide it.
"""
