"""Text classification: the data sets by name, as numbered batches of token ids."""

from ponderosa.tasks.text.task import TextClassification

__all__ = ["TextClassification"]
