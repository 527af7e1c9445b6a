"""The report: one HTML file that needs nothing else, readable on a phone and in print, light and dark."""

from ponderosa.measure.report.make import report
from ponderosa.measure.report.page import render, write_report

__all__ = ["render", "report", "write_report"]
