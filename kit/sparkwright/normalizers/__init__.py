"""Normalizers of features and labels: fitted in one pass, applied and reverted, stored as JSON.

Their public names are those of `sparkwright.data`.
"""
