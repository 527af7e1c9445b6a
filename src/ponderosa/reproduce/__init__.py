"""Every table and figure of the papers that can be made here: a recipe, and the paper's own figures beside ours."""

RESULTS = {
    "lac-table-1": "LAC, table 1: parity with a GRU, fixed, per batch and per example, and a control",
    "lac-table-2": "LAC, table 2: CIFAR-10, ViT and UViT, fixed, per batch and per example, and controls",
    "lac-figure-1": "LAC, figure 1: the steps taken on CIFAR-10's test images",
    "pondernet-mnist": "PonderNet report, figures 1, 3, 5, 8, 9, 12: MNIST, the sweep over lambda_p",
    "pondernet-parity": "PonderNet report, figures 2, 4, 6, 7, 10, 11: parity, the sweeps over lambda_p and beta",
    "hyper-ut-figure-3": "Hyper-UT, figure 3: accuracy and depth by hops on C-PVR, ten models, in and out of distribution",
    "hyper-ut-figure-4": "Hyper-UT, figure 4: the implicit curriculum, accuracy by hops over training",
    "hyper-ut-figure-5": "Hyper-UT, figure 5: C-PVR as text, a T5 with and without a scratch-pad, accuracy by hops",
    "hyper-ut-figure-6": "Hyper-UT, figure 6: ViT, ViT PS, U-ViT and Hyper-UT on images, accuracy against mean layers",
    "hyper-ut-figure-7": "Hyper-UT, figure 7: plain transformers of three depths, accuracy by hops",
    "hyper-ut-figure-8": "Hyper-UT, figure 8: the kinds of error of a T5 with a scratch-pad, by hops",
    "hyper-ut-paper-size": "Hyper-UT, tables 1 and 2: the ten models at the paper's size, one training step of each",
    "faster-dat-table-2": "Faster depth-adaptive transformers, table 2: Amazon-16, with controls",
    "faster-dat-table-3": "Faster depth-adaptive transformers, table 3: TREC, MR, Subj, IMDB, AG's News, with controls",
    "image-difficulty": "Rotated and noisy MNIST: whether steps rise with difficulty, for four mechanisms (in no paper)",
}
