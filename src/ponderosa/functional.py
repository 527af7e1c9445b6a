"""The formulas of the papers as pure functions, the step axis first.

Each stands in its mechanism's own file, where its whole logic is; this page only gathers them.
"""

from ponderosa.halting.act import act_weights
from ponderosa.halting.exits import entropy
from ponderosa.halting.lac import lac_steps
from ponderosa.halting.pondernet import ponder_weights
from ponderosa.halting.prior import geometric_prior, kl_to_prior
from ponderosa.halting.unit import pseudo_labels

__all__ = ["act_weights", "entropy", "geometric_prior", "kl_to_prior", "lac_steps", "ponder_weights", "pseudo_labels"]
