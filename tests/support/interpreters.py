# SPDX-License-Identifier: MIT
"""Finds the Python interpreters that are installed."""
import glob
import subprocess

KNOWN = ('3.9', '3.10', '3.11', '3.12', '3.13', '3.14')


def interpreters(versions=KNOWN):
    """One of each version, by its path; the system's is among them."""
    found = {}
    for path in ['/usr/bin/python3'] + sorted(glob.glob('/usr/bin/python3.*[0-9]') + glob.glob('/root/.pyenv/versions/3.*/bin/python3')):
        ask = subprocess.run([path, '-c', 'import sys; print("%d.%d" % sys.version_info[:2])'], text=True, capture_output=True)
        if ask.returncode == 0 and ask.stdout.strip() in versions:
            found.setdefault(ask.stdout.strip() + ('' if path.startswith('/usr/bin') else ' shared'), path)
    return found.items()
