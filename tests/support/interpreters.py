# SPDX-License-Identifier: MIT
"""Finds the Python interpreters that are installed."""
import glob
import os
import subprocess

KNOWN = ('3.9', '3.10', '3.11', '3.12', '3.13', '3.14', '3.15')

# In a program: the bytes that a bytearray has beyond those that were asked for. From 3.15 on it keeps an object of bytes.
MORE = 'import sys; MORE = 33 if sys.version_info >= (3, 15) else 1'


def more(version):
    return 33 if version.split()[0] == '3.15' else 1


def interpreters(versions=KNOWN):
    """One of each version, by its path; the system's is among them. Free-threaded builds are the versions 3.13t and later."""
    found = {}
    ask_version = 'import sys, sysconfig; print("%d.%d" % sys.version_info[:2] + ("t" if sysconfig.get_config_var("Py_GIL_DISABLED") else ""))'
    for path in ['/usr/bin/python3'] + sorted(
            glob.glob('/usr/bin/python3.*[0-9t]') + glob.glob('/root/.pyenv/versions/3.*/bin/python3') + os.environ.get('DP_TEST_PYTHONS', '').split()):
        ask = subprocess.run([path, '-c', ask_version], text=True, capture_output=True)
        if ask.returncode == 0 and ask.stdout.strip() in versions:
            found.setdefault(ask.stdout.strip() + ('' if path.startswith('/usr/bin') else ' shared'), path)
    return found.items()
