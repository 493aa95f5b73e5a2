"""Builds one extension for all Pythons from 3.11 on (the limited API), or for one without a global lock."""

import sysconfig

from setuptools import Extension, setup

is_limited = not sysconfig.get_config_var("Py_GIL_DISABLED")

setup(
    ext_modules=[Extension("pykafka2_c", ["pykafka2_c.c"], py_limited_api=is_limited)],
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if is_limited else {},
)
