"""The tools that ./dev runs, and starters of real servers for tests and bench. Not installed with penstock.

The modules of ./dev itself use only the standard library, because they create the environment.
"""
