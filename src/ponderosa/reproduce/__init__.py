"""Every table and figure of the papers that can be made here: a recipe, and the paper's own figures beside ours."""

RESULTS = {
    "lac-table-1": "LAC, table 1: parity with a GRU, fixed, per batch and per example, and a control",
    "pondernet-parity": "PonderNet report, figures 2, 4, 6, 7, 10, 11: parity, the sweeps over lambda_p and beta",
    "hyper-ut-figure-3": "Hyper-UT, figure 3: accuracy and depth by hops on C-PVR, ten models, in and out of distribution",
    "hyper-ut-figure-4": "Hyper-UT, figure 4: the implicit curriculum, accuracy by hops over training",
    "hyper-ut-figure-7": "Hyper-UT, figure 7: plain transformers of three depths, accuracy by hops",
    "hyper-ut-paper-size": "Hyper-UT, tables 1 and 2: the ten models at the paper's size, one training step of each",
    "faster-dat-table-1": "Faster depth-adaptive transformers, table 1: the data sets as they are loaded",
    "faster-dat-table-2": "Faster depth-adaptive transformers, table 2: Amazon-16, with controls",
    "faster-dat-table-3": "Faster depth-adaptive transformers, table 3: TREC, MR, Subj, IMDB, AG's News, with controls",
    "faster-dat-table-4": "Faster depth-adaptive transformers, table 4: the penalty of a layer in reconstruction",
    "faster-dat-figure-1": "Faster depth-adaptive transformers, figure 1: mutual information of words, and their depths",
    "faster-dat-figure-3": "Faster depth-adaptive transformers, figure 3: accuracy and speed against the number of layers",
    "faster-dat-figure-4": "Faster depth-adaptive transformers, figure 4: speed against batch size",
    "faster-dat-figure-5": "Faster depth-adaptive transformers, figure 5: sentences, their words coloured by depth",
}
