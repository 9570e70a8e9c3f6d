"""Careless changes of the product, by the invariant whose requirement they violate; `defects.DEFECTS` has them all.

Law of this folder: a defect patches functions of the real guard or agent in this process and writes nothing.
"""
