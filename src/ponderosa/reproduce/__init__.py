"""Every table and figure of the papers that can be made here: a recipe, and the paper's own figures beside ours."""

RESULTS = {
    "lac-table-1": "LAC, table 1: parity with a GRU, fixed, per batch and per example, and a control",
    "pondernet-parity": "PonderNet report, figures 2, 4, 6, 7, 10, 11: parity, the sweeps over lambda_p and beta",
}
